// The constraint of one sequence in the executor: the state, and the tokens that follow without a choice.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "contract/step_plan.h"
#include "sample/sampling_state.h"

namespace quire {

// Owned by the sequence's record; used by one thread at a time. A copy is a clone, for another sequence.
//
// Where the constraint forces a text, the output has the tokens that the tokenizer writes it with, whether
// they are sampled one by one or appended at once (LocalExecutorOptions::jump_ahead). So a request gets the
// same tokens either way. A token that the request itself rules out is not forced; the mask decides there.
class ConstrainedOutput {
 public:
  // rules: of the request.
  ConstrainedOutput(const SequenceInit& init, std::shared_ptr<const SamplingRules> rules);
  ConstrainedOutput(const ConstrainedOutput& other);
  ConstrainedOutput& operator=(const ConstrainedOutput& other);
  ConstrainedOutput(ConstrainedOutput&&) = default;
  ConstrainedOutput& operator=(ConstrainedOutput&&) = default;
  ~ConstrainedOutput() = default;

  // The next token if it is forced, otherwise -1.
  TokenId forced() const { return forced_.empty() ? -1 : forced_.back(); }
  // Whether every token may follow: fill() need not be called.
  bool unrestricted() const { return forced_.empty() && state_->unrestricted(); }
  // Sets the bits of the tokens that may follow: the forced one, or those of the constraint, without the end
  // tokens that the request ignores. mask [ceil(vocab_size / 32)].
  Status fill(std::span<uint32_t> mask);
  // Appends a token that fill() allows. Returns whether nothing can follow it.
  bool append(TokenId token);

 private:
  void find_forced();
  bool ruled_out(TokenId token) const;

  std::unique_ptr<ConstraintState> state_;
  std::shared_ptr<const SamplingRules> rules_;
  std::vector<TokenId> ignored_;  // end tokens that the request ignores
  std::vector<TokenId> forced_;   // the next one last
};

}  // namespace quire
