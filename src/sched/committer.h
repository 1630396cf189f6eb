// Applies the executor's result of a step: computed tokens, forks, new tokens, ends of samples. Produces the
// updates for the output side (vLLM: Scheduler.update_from_output).
//
// Beam search: the executor decides which beams continue; here they are tables and tokens (beam_commit.cc).
//
// Owned by Scheduler; engine thread only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sched/scheduler_state.h"

namespace quire {

class Committer {
 public:
  explicit Committer(SchedulerState& state) : state_(state) {}

  // Throws Error if the result belongs to another step. Ends the step.
  const CommitResult& commit(StepState& step, const StepResult& result);

  // Cached prompt tokens of a request in CommitResult::started, which may have ended since; otherwise 0.
  int32_t num_cached_tokens(RequestId request) const;
  // Summed over commits: slots held without a token, and all slots held.
  double wasted_slots() const { return wasted_slots_; }
  double held_slots() const { return held_slots_; }

 private:
  void begin(StepState& step, const StepResult& result);
  void apply_failures(const StepResult& result);
  void apply_computed(const StepState& step);
  void apply_forks(const StepState& step, const StepResult& result);
  void apply_sampled(const StepState& step, const StepResult& result);
  void apply_prompt_logprobs(const StepResult& result);
  void apply_pooled(const StepResult& result);
  void apply_dropped(const StepResult& result);
  void fail_without_token(const StepState& step);
  void count_step(const StepState& step);
  void finish(StepState& step);

  void fork_sample(Sequence& parent, Sequence& child);
  void close_fork(Sequence& parent);
  void append_tokens(Sequence& sequence, std::span<const SampledToken> tokens);
  FinishReason check_end(const Sequence& sequence, TokenId token, std::optional<TokenId>& stop_token) const;
  SequenceUpdate& update_of(Sequence& sequence);
  SequenceUpdate& finish_sample(Sequence& sequence, FinishReason reason);
  void fail_group(SequenceGroup& group, const std::string& message);

  // beam_commit.cc
  void apply_beams(const StepResult& result);
  void fork_beam(Sequence& parent, Sequence& child);
  void append_to_beam(Sequence& beam, std::span<const SampledToken> tokens);
  void drop_beam(Sequence& beam);
  void end_beams(SequenceGroup& group);
  void check_beams(SequenceGroup& group);

  SchedulerState& state_;
  CommitResult result_;
  std::vector<int32_t> started_cached_tokens_;  // parallel to result_.started
  std::vector<Sequence*> updated_;              // parallel to result_.updates
  std::vector<Sequence*> forked_;               // samples forked in this commit
  bool any_dropped_ = false;                    // beams that are still in the running list
  double wasted_slots_ = 0.0;
  double held_slots_ = 0.0;
};

}  // namespace quire
