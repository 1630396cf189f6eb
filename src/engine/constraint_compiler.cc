#include "engine/constraint_compiler.h"

#include <exception>
#include <utility>

#include "base/strings.h"
#include "grammar/compile.h"
#include "grammar/parse_constraint.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {
namespace {

// A refusal occupies little, but a client can send any number of wrong specifications.
constexpr size_t kBytesOfEntry = 512;
// Calls of Limits::on_progress: a tenth of the steps that compiling may take, some ten milliseconds. Schemas
// of a few hundred properties need less.
constexpr int kQuickCalls = 200;

std::string key_of(const StructuredOutputs& spec) {
  return cat(static_cast<int>(spec.kind), spec.disable_any_whitespace ? "w" : "", spec.strict ? "s" : "", ":",
             spec.text);
}

// The tokens that a grammar may name: special and added ones. `tokenizer` must outlive them.
grammar::SpecialTokens special_tokens(const Tokenizer& tokenizer) {
  grammar::SpecialTokens tokens;
  tokens.find = [&tokenizer](std::string_view text) { return tokenizer.added_token(text); };
  tokens.contains = [&tokenizer](int64_t id) {
    return id >= 0 && id < static_cast<int64_t>(tokenizer.vocab_size()) &&
           tokenizer.is_added(static_cast<TokenId>(id));
  };
  return tokens;
}

}  // namespace

size_t ConstraintCompiler::Entry::size() const {
  const bool compiled = result && result->ok();
  return kBytesOfEntry + key.size() + (compiled ? result->value()->memory() : 0);
}

ConstraintCompiler::ConstraintCompiler(const Tokenizer* tokenizer, int32_t vocab_size,
                                       std::vector<TokenId> end_token_ids, size_t cache_bytes)
    : tokenizer_(tokenizer),
      vocab_size_(vocab_size),
      end_token_ids_(std::move(end_token_ids)),
      cache_bytes_(cache_bytes) {}

Result<SharedConstraint> ConstraintCompiler::compile(const StructuredOutputs& spec,
                                                     const CompileOptions& options) {
  // The field of the request; the rest of the path is in the message.
  const std::string param = spec.field.substr(0, spec.field.find('.'));
  if (tokenizer_ == nullptr) {
    return invalid_argument(
        cat(spec.field, " needs a tokenizer, and this model has none: its outputs are token ids."), param);
  }
  Result<SharedConstraint> result = find_or_compile(spec, options);
  if (result.ok()) return result;
  return Failure{result.failure().kind, cat(spec.field, ": ", result.failure().message), param};
}

std::shared_ptr<ConstraintCompiler::Entry> ConstraintCompiler::find_or_add(std::string key,
                                                                           CompileEffort effort,
                                                                           bool& is_new) {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto known = by_key_.find(key);
    if (known == by_key_.end()) break;
    std::shared_ptr<Entry> entry = *known->second;
    if (!entry->result && effort != CompileEffort::kFull) throw NeedsMoreEffort();
    entries_.splice(entries_.begin(), entries_, known->second);
    compiled_.wait(lock, [&entry] { return entry->result.has_value() || entry->abandoned; });
    if (entry->result) return entry;
  }
  if (effort == CompileEffort::kCached) throw NeedsMoreEffort();
  auto entry = std::make_shared<Entry>(Entry{std::move(key), std::nullopt});
  entries_.push_front(entry);
  by_key_[entry->key] = entries_.begin();
  is_new = true;
  return entry;
}

Result<SharedConstraint> ConstraintCompiler::find_or_compile(const StructuredOutputs& spec,
                                                             const CompileOptions& options) {
  bool is_new = false;
  const std::shared_ptr<Entry> entry = find_or_add(key_of(spec), options.effort, is_new);
  if (!is_new) return *entry->result;
  std::optional<Result<SharedConstraint>> result;
  try {
    result = compile_new(spec, options);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    remove(*entry);
    throw;
  }
  const std::lock_guard lock(mutex_);
  entry->result = result;
  compiled_.notify_all();
  // Memory that was short may be there the next time.
  if (!result->ok() && result->failure().kind == ErrorKind::kInternal) remove(*entry);
  drop_old();
  return *result;
}

// Under the lock.
void ConstraintCompiler::remove(Entry& entry) {
  const auto it = by_key_.find(entry.key);
  const auto place = it->second;
  by_key_.erase(it);
  entry.abandoned = !entry.result;
  entries_.erase(place);
  compiled_.notify_all();
}

Result<SharedConstraint> ConstraintCompiler::compile_new(const StructuredOutputs& spec,
                                                         const CompileOptions& options) try {
  int num_calls = 0;
  grammar::Limits limits;
  limits.on_progress = [&options, &num_calls] {
    options.yield_point.check();
    if (options.effort == CompileEffort::kQuick && ++num_calls > kQuickCalls) throw NeedsMoreEffort();
  };
  const Result<grammar::Grammar> parsed =
      grammar::parse_constraint(spec, special_tokens(*tokenizer_), limits);
  if (!parsed.ok()) return parsed.failure();
  auto compiled = grammar::compile(*parsed, token_table(), limits);
  if (!compiled.ok()) return compiled.failure();
  return SharedConstraint(std::move(*compiled));
} catch (const Cancelled&) {
  throw;
} catch (const NeedsMoreEffort&) {
  throw;
} catch (const std::exception& e) {
  return Failure{ErrorKind::kInternal, cat("it could not be compiled: ", e.what()), {}};
}

std::shared_ptr<const grammar::TokenTable> ConstraintCompiler::token_table() {
  const std::lock_guard lock(table_mutex_);
  if (table_ == nullptr) {
    table_ =
        grammar::TokenTable::from_tokenizer(*tokenizer_, static_cast<size_t>(vocab_size_), end_token_ids_);
  }
  return table_;
}

// Keeps at least the entry that was used last. Adds up all sizes, because constraints grow with their caches.
void ConstraintCompiler::drop_old() {
  size_t bytes = 0;
  for (auto it = entries_.begin(); it != entries_.end();) {
    bytes += (*it)->size();
    const bool drop = it != entries_.begin() && bytes > cache_bytes_ && (*it)->result;
    if (drop) by_key_.erase((*it)->key);
    it = drop ? entries_.erase(it) : std::next(it);
  }
}

}  // namespace quire
