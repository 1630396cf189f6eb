#include "grammar/parser.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace quire::grammar {
namespace {

using SymbolKind = CompiledGrammar::Kind;

// The end of the output.
const ReturnPoint& end_of_output() {
  static const ReturnPoint kEnd{};
  return kEnd;
}

bool same_frame(const Frame& a, const Frame& b) {
  return a.position == b.position && (a.then == b.then || a.then->hash == b.then->hash);
}
bool frame_before(const Frame& a, const Frame& b) {
  return a.position != b.position ? a.position < b.position : a.then->hash < b.then->hash;
}

bool same_thread(const Thread& a, const Thread& b) {
  return a.position == b.position && a.state == b.state && a.count == b.count &&
         (a.then == b.then || a.then->hash == b.then->hash);
}
bool thread_before(const Thread& a, const Thread& b) {
  const auto key = [](const Thread& t) { return std::tuple(t.position, t.state, t.count); };
  return key(a) != key(b) ? key(a) < key(b) : a.then->hash < b.then->hash;
}

void normalize(std::vector<Thread>& threads) {
  if (threads.size() < 2) return;
  std::sort(threads.begin(), threads.end(), thread_before);
  threads.erase(std::unique(threads.begin(), threads.end(), same_thread), threads.end());
}

ContentHash hash_of_frames(const std::vector<Frame>& frames) {
  ContentHash hash;
  for (const Frame& frame : frames) {
    hash.add(static_cast<uint32_t>(frame.position));
    hash.add(frame.then->hash);
  }
  return hash;
}

// One closure, in three steps: the items that exist before anything is predicted, the rules that begin here
// with the places that wait for them, and the result.
class ClosureBuilder {
 public:
  ClosureBuilder(const CompiledGrammar& grammar, Closure& closure) : grammar_(grammar), closure_(closure) {}

  // Returns false if there are too many items.
  bool run(const std::vector<Frame>& kernel) {
    for (const Frame& item : kernel) add(item);
    for (size_t i = 0; i < items_.size(); ++i) {
      if (items_.size() > grammar_.max_items) return false;
      expand(items_[i]);
    }
    std::erase_if(items_, [&](const Frame& item) { return at(item.position).kind == SymbolKind::kEnd; });
    std::sort(items_.begin(), items_.end(), frame_before);
    predict();
    make_returns();
    make_threads();
    return closure_.starts.threads.size() <= grammar_.max_items;
  }

 private:
  // A place that waits for a rule: either with a return point that exists, or with that of a rule that begins
  // in this closure.
  struct Waiter {
    int32_t position = 0;  // after the rule
    const ReturnPoint* then = nullptr;
    size_t rule = 0;  // index into predicted_ if then is null
  };
  struct Predicted {
    int32_t rule = 0;
    std::vector<Waiter> waiters;
    const ReturnPoint* then = nullptr;
  };

  const CompiledGrammar::Position& at(int32_t position) const {
    return grammar_.positions[static_cast<size_t>(position)];
  }

  void add(const Frame& item) {
    constexpr size_t kFew = 16;
    if (items_.size() < kFew) {
      for (const Frame& other : items_) {
        if (same_frame(item, other)) return;
      }
    } else {
      if (known_count_ == 0) {
        for (const Frame& other : items_) remember(other);
      }
      if (!remember(item)) return;
    }
    items_.push_back(item);
  }

  bool remember(const Frame& item) {
    ++known_count_;
    ContentHash key = item.then->hash;
    key.add(static_cast<uint32_t>(item.position));
    bool found = false;
    known_.at(key.low, &found);
    return !found;
  }

  void expand(const Frame item) {
    const CompiledGrammar::Position& position = at(item.position);
    if (position.kind != SymbolKind::kEnd) {
      if (position.nullable) add({item.position + 1, item.then});
    } else if (item.then->owner == nullptr) {
      closure_.starts.complete = true;
    } else {
      for (const Frame& frame : item.then->frames) add(frame);
    }
  }

  size_t predicted(int32_t rule) {
    bool found = false;
    int32_t& index = indices_.at(static_cast<uint64_t>(rule), &found);
    if (!found) {
      index = static_cast<int32_t>(predicted_.size());
      predicted_.push_back({rule, {}, nullptr});
    }
    return static_cast<size_t>(index);
  }

  void predict() {
    for (const Frame& item : items_) {
      const CompiledGrammar::Position& position = at(item.position);
      if (position.kind == SymbolKind::kRule)
        predicted_[predicted(position.id)].waiters.push_back({item.position + 1, item.then, 0});
    }
    for (size_t i = 0; i < predicted_.size(); ++i) {
      for (const int32_t start : grammar_.rules[static_cast<size_t>(predicted_[i].rule)].positions) {
        const CompiledGrammar::Position& position = at(start);
        if (position.kind == SymbolKind::kRule)
          predicted_[predicted(position.id)].waiters.push_back({start + 1, nullptr, i});
      }
    }
  }

  // A rule for which only the end of another rule waits returns to where that one returns: right recursion
  // does not grow. Its waiter was predicted earlier, so it is resolved already.
  bool returns_with(const Predicted& predicted) const {
    return predicted.waiters.size() == 1 && at(predicted.waiters[0].position).kind == SymbolKind::kEnd;
  }

  void make_returns() {
    const ContentHash hash = hash_of_frames(items_);
    size_t count = 0;
    for (const Predicted& predicted : predicted_) count += returns_with(predicted) ? 0 : 1;
    closure_.returns.resize(count);
    count = 0;
    for (Predicted& predicted : predicted_) {
      if (returns_with(predicted)) {
        const Waiter& waiter = predicted.waiters[0];
        predicted.then = waiter.then != nullptr ? waiter.then : predicted_[waiter.rule].then;
        continue;
      }
      ReturnPoint& point = closure_.returns[count++];
      point.hash = hash;
      point.hash.add(static_cast<uint32_t>(predicted.rule));
      point.owner = &closure_;
      predicted.then = &point;
    }
    count = 0;
    for (const Predicted& predicted : predicted_) {
      if (returns_with(predicted)) continue;
      ReturnPoint& point = closure_.returns[count++];
      for (const Waiter& waiter : predicted.waiters)
        point.frames.push_back(
            {waiter.position, waiter.then != nullptr ? waiter.then : predicted_[waiter.rule].then});
    }
    for (const Frame& item : items_) {
      if (item.then->owner == nullptr) continue;
      const auto is_owner = [&](const auto& parent) { return parent.get() == item.then->owner; };
      if (std::ranges::none_of(closure_.parents, is_owner))
        closure_.parents.push_back(item.then->owner->shared_from_this());
    }
  }

  void add_thread(int32_t position, const ReturnPoint* then) {
    int32_t state = 0;
    if (at(position).kind == SymbolKind::kLexeme) {
      const Automaton& automaton = grammar_.lexeme(position);
      state = automaton.start();
      if (!automaton.continues(state, 0)) return;
    } else if (at(position).kind != SymbolKind::kToken) {
      return;
    }
    closure_.starts.threads.push_back({position, state, 0, then});
  }

  void make_threads() {
    for (const Frame& item : items_) add_thread(item.position, item.then);
    for (const Predicted& predicted : predicted_) {
      for (const int32_t start : grammar_.rules[static_cast<size_t>(predicted.rule)].positions)
        add_thread(start, predicted.then);
    }
    normalize(closure_.starts.threads);
  }

  const CompiledGrammar& grammar_;
  Closure& closure_;
  std::vector<Frame> items_;
  IdMap known_;  // items, if there are many
  size_t known_count_ = 0;
  std::vector<Predicted> predicted_;
  IdMap indices_;  // of predicted_, by rule
};

}  // namespace

size_t CompiledGrammar::memory() const {
  size_t bytes =
      sizeof(*this) + positions.capacity() * sizeof(Position) + tokens.capacity() * sizeof(TokenId);
  for (const Automaton& lexeme : lexemes) bytes += lexeme.memory();
  for (const RuleStart& rule : rules) bytes += sizeof(rule) + rule.positions.capacity() * sizeof(int32_t);
  return bytes;
}

void release_later(std::shared_ptr<const void> object) {
  // The list of the outermost destructor that is running in this thread.
  thread_local std::vector<std::shared_ptr<const void>>* waiting = nullptr;
  if (waiting != nullptr) {
    waiting->push_back(std::move(object));
    return;
  }
  std::vector<std::shared_ptr<const void>> objects;
  waiting = &objects;
  objects.push_back(std::move(object));
  while (!objects.empty()) {
    const std::shared_ptr<const void> next = std::move(objects.back());
    objects.pop_back();
  }
  waiting = nullptr;
}

Closure::~Closure() {
  for (auto& parent : parents) release_later(std::move(parent));
}

std::shared_ptr<const Closure> Parser::build(const std::vector<Frame>& items) {
  auto closure = std::make_shared<Closure>();
  if (!ClosureBuilder(*grammar_, *closure).run(items)) return nullptr;
  return closure;
}

// Null if there are too many items. Without a copy of the reference count, because walks over a vocabulary
// come here for many tokens.
const Closure* Parser::closure_of_kernel() {
  const bool single = kernel_.size() == 1;
  if (single && last_closure_ != nullptr && kernel_[0].position == last_.position &&
      kernel_[0].then == last_.then)
    return last_closure_;
  if (!single) std::sort(kernel_.begin(), kernel_.end(), frame_before);
  const auto [found, added] = closures_.try_emplace(hash_of_frames(kernel_));
  if (added) found->second = build(kernel_);
  if (found->second == nullptr) too_ambiguous_ = true;
  if (single) {
    last_ = kernel_[0];
    last_closure_ = found->second.get();
  }
  return found->second.get();
}

// Adds what begins after the completed items.
void Parser::finish(Configuration& to) {
  if (!kernel_.empty()) {
    const Closure* closure = closure_of_kernel();
    if (closure == nullptr) return to.threads.clear();
    to.complete = closure->starts.complete;
    to.threads.insert(to.threads.end(), closure->starts.threads.begin(), closure->starts.threads.end());
  }
  normalize(to.threads);
  if (to.threads.size() > grammar_->max_items) too_ambiguous_ = true;
}

Configuration Parser::start() {
  Configuration result;
  kernel_.assign(1, {grammar_->start, &end_of_output()});
  finish(result);
  return result;
}

const Configuration* Parser::after(const Thread& thread) {
  kernel_.assign(1, {thread.position + 1, thread.then});
  const Closure* closure = closure_of_kernel();
  return closure == nullptr ? nullptr : &closure->starts;
}

void Parser::advance(const Configuration& from, uint8_t byte, Configuration& to) {
  to.threads.clear();
  to.complete = false;
  kernel_.clear();
  for (const Thread& thread : from.threads) {
    const CompiledGrammar::Position& position = grammar_->positions[static_cast<size_t>(thread.position)];
    if (position.kind != SymbolKind::kLexeme) continue;
    const Automaton& automaton = grammar_->lexemes[static_cast<size_t>(position.id)];
    uint32_t count = thread.count;
    const int32_t state = automaton.advance(thread.state, byte, &count);
    if (state == Automaton::kDead) continue;
    if (automaton.continues(state, count)) to.threads.push_back({thread.position, state, count, thread.then});
    if (automaton.accepts(state, count)) kernel_.push_back({thread.position + 1, thread.then});
  }
  finish(to);
}

void Parser::advance_token(const Configuration& from, TokenId token, Configuration& to) {
  to.threads.clear();
  to.complete = false;
  kernel_.clear();
  for (const Thread& thread : from.threads) {
    const CompiledGrammar::Position& position = grammar_->positions[static_cast<size_t>(thread.position)];
    if (position.kind == SymbolKind::kToken && position.id == token)
      kernel_.push_back({thread.position + 1, thread.then});
  }
  finish(to);
}

ContentHash hash_of(const CompiledGrammar& grammar, const Configuration& configuration, uint32_t distance) {
  ContentHash hash;
  hash.add(configuration.complete ? 1 : 0);
  for (const Thread& thread : configuration.threads) {
    hash.add((static_cast<uint64_t>(thread.position) << 32) | static_cast<uint32_t>(thread.state));
    hash.add(thread.then->hash);
    if (grammar.positions[static_cast<size_t>(thread.position)].kind != SymbolKind::kLexeme) continue;
    const Automaton::Counter& counter = grammar.lexeme(thread.position).counter();
    if (counter.loop < 0) continue;
    const uint32_t missing = thread.count < counter.min ? counter.min - thread.count : 0;
    const uint32_t left = counter.max - std::min(counter.max, thread.count);
    hash.add((static_cast<uint64_t>(std::min(missing, distance)) << 32) | std::min(left, distance));
  }
  return hash;
}

std::vector<std::shared_ptr<const Closure>> owners_of(const Configuration& configuration) {
  std::vector<std::shared_ptr<const Closure>> owners;
  for (const Thread& thread : configuration.threads) {
    const Closure* owner = thread.then->owner;
    const auto is_owner = [&](const auto& other) { return other.get() == owner; };
    if (owner != nullptr && std::ranges::none_of(owners, is_owner))
      owners.push_back(owner->shared_from_this());
  }
  return owners;
}

}  // namespace quire::grammar
