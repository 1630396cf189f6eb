// Constraints on the output of a request: valid JSON for a schema, a match of a regular expression, a
// sentence of a grammar, calls of given tools. The layer `grammar` compiles them; the executor asks them for
// masks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "contract/ids.h"

namespace quire {

// The state of one sequence within a constraint. Owned by the sequence's record in the executor; used by one
// thread at a time, while different states of one constraint may be used by different threads.
class ConstraintState {
 public:
  virtual ~ConstraintState() = default;

  // Sets bit t % 32 of mask[t / 32] for exactly those tokens after which the output can still become valid,
  // and clears the others. An end token is allowed if and only if the output is complete.
  // mask [ceil(vocab_size / 32)]. Fails with kInvalidArgument if the grammar is too ambiguous here
  // (grammar/limits.h); a function of the state alone otherwise.
  virtual Status fill(std::span<uint32_t> mask) = 0;
  // Whether every token may follow, end tokens too: fill() need not be called.
  virtual bool unrestricted() const { return false; }
  // Appends a token. False, without a change, if fill() does not allow it.
  virtual bool accept(TokenId token) = 0;
  // Removes the last `count` accepted tokens; at most as many as were accepted.
  virtual void rollback(size_t count) = 0;
  // The same state for a sequence that forks off. Costs the same for any length of the output, except within
  // a limit on reasoning (grammar/reasoning_budget.h).
  virtual std::unique_ptr<ConstraintState> clone() const = 0;
  // Whether the output is valid if it ends here.
  virtual bool complete() const = 0;
  // Whether nothing can follow: only end tokens are allowed.
  virtual bool finished() const = 0;
  // The bytes that every valid output has next; "" if there is a choice or the output may end here.
  virtual std::string forced_bytes() const = 0;
  // The tokens that write forced_bytes(), as the tokenizer does: all but the last one, which could be another
  // token together with the text after it. Empty if there is no tokenizer or it has no tokens for the text.
  virtual std::vector<TokenId> forced_tokens() const { return {}; }
};

// A compiled constraint. Immutable and shared by all requests with the same specification; any thread may
// start states.
class OutputConstraint {
 public:
  virtual ~OutputConstraint() = default;
  virtual std::unique_ptr<ConstraintState> start() const = 0;
  // Bytes that the constraint occupies now, with its caches.
  virtual size_t memory() const = 0;
  // JSON pointers of the parts of the specification that have no effect: unknown keywords and formats.
  const std::vector<std::string>& ignored() const { return ignored_; }

 protected:
  std::vector<std::string> ignored_;
};

// A constraint shared by requests; null if there is none.
using SharedConstraint = std::shared_ptr<const OutputConstraint>;

}  // namespace quire
