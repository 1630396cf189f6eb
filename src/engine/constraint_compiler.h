// Compiles the constraints of requests for one model and keeps those that were used last. Owned by the
// engine; called on the threads of callers, several at once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "contract/ids.h"
#include "contract/output_constraint.h"
#include "contract/sampling_params.h"
#include "engine/compile_options.h"

namespace quire {

class Tokenizer;

namespace grammar {
class TokenTable;
}

class ConstraintCompiler {
 public:
  // tokenizer: null for a model without one, which has no constraints; otherwise it outlives this.
  // cache_bytes: for compiled constraints; those that requests use may take more.
  ConstraintCompiler(const Tokenizer* tokenizer, int32_t vocab_size, std::vector<TokenId> end_token_ids,
                     size_t cache_bytes);

  // The same specification gives the same object while it is cached, and is compiled once if several threads
  // ask for it. A refusal is cached too. The message of a failure begins with StructuredOutputs::field,
  // and Failure::param is the first part of that path. Throws NeedsMoreEffort or Cancelled as the options
  // say; other callers with the specification then continue without this one.
  Result<SharedConstraint> compile(const StructuredOutputs& spec, const CompileOptions& options = {});

 private:
  // A specification and its result, whose messages name no field: requests give it in different ones.
  struct Entry {
    std::string key;
    std::optional<Result<SharedConstraint>> result;  // nullopt while it is compiled
    bool abandoned = false;                          // without a result, and no longer in entries_
    size_t size() const;
  };
  using Entries = std::list<std::shared_ptr<Entry>>;

  Result<SharedConstraint> find_or_compile(const StructuredOutputs& spec, const CompileOptions& options);
  // The entry of the key with its result, or a new one, which the caller fills.
  std::shared_ptr<Entry> find_or_add(std::string key, CompileEffort effort, bool& is_new);
  Result<SharedConstraint> compile_new(const StructuredOutputs& spec, const CompileOptions& options);
  void remove(Entry& entry);
  std::shared_ptr<const grammar::TokenTable> token_table();
  void drop_old();

  const Tokenizer* tokenizer_;
  int32_t vocab_size_;
  std::vector<TokenId> end_token_ids_;
  size_t cache_bytes_;
  std::mutex mutex_;  // guards the following
  std::condition_variable compiled_;
  Entries entries_;                                                 // the most recent first
  std::unordered_map<std::string_view, Entries::iterator> by_key_;  // keys of entries_
  std::mutex table_mutex_;                                          // guards table_
  std::shared_ptr<const grammar::TokenTable> table_;                // built by the first constraint
};

}  // namespace quire
