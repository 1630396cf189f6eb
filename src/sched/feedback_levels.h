// The multi-level feedback queue with skip-join (Wu et al., "Fast Distributed Inference Serving for Large
// Language Models", arXiv 2305.05920). Owned by Scheduler; engine thread only.
//
//   level     0     1     2    ...   7
//   quantum  16    32    64   ...  2048   iterations: one decoded token, or kPromptTokens prompt tokens
//
// A request enters at the first level whose quantum covers its prompt and is demoted by one level when its
// quantum is used up. Lower levels are scheduled first; within a level, requests are in order of entry. The
// length of a completion is not known in advance, but a request that has used little work is likely to finish
// soon. Recomputed tokens cost no quantum.
//
// Starvation guard: in a step in which a request has taken part in fewer than an eighth of the steps since
// its arrival, less a delay, it moves to the top, above level 0, for a quantum of its level after the rest of
// its prompt. Steps count only if they compute tokens of the request that were never computed before. While
// those at the top run together, a request that takes N steps alone so ends within 8 N steps and the delay.
#pragma once

#include <boost/intrusive/set.hpp>
#include <cstdint>

#include "sched/request.h"

namespace quire {

class FeedbackLevels {
 public:
  static constexpr int64_t kNumLevels = 8;
  static constexpr int64_t kFirstQuantum = 16;  // iterations
  static constexpr int64_t kPromptTokens = 16;  // prompt tokens per iteration

  static constexpr int64_t kTop = -1;   // the level of promoted requests
  static constexpr int64_t kShare = 8;  // a request takes part in one of eight steps

  explicit FeedbackLevels(int64_t delay) : delay_(delay) {}
  ~FeedbackLevels() { waiting_.clear(); }

  // Work units: tokens of a prompt.
  static constexpr int64_t quantum(int64_t level) { return (kFirstQuantum * kPromptTokens) << level; }
  static int64_t first_level(int64_t num_prompt_tokens);

  // step: the number of steps so far.
  void enter(SequenceGroup& group, int64_t step);
  // Charges work that the group did in `step`. Returns true if it was demoted.
  bool charge(SequenceGroup& group, int64_t units, int64_t step);
  void promote(SequenceGroup& group);

  // The waiting groups below the top, in the order in which they fall behind. Their deadlines change only
  // while they are outside.
  void push_waiting(SequenceGroup& group);
  void remove_waiting(SequenceGroup& group);
  // A waiting group that has fallen behind, or null.
  SequenceGroup* starving(int64_t step);
  static bool starves(const SequenceGroup& group, int64_t step) {
    return group.rank.level != kTop && group.deadline < step;
  }

 private:
  struct ByDeadline {
    bool operator()(const SequenceGroup& a, const SequenceGroup& b) const { return a.deadline < b.deadline; }
  };
  using Set = boost::intrusive::multiset<
      SequenceGroup,
      boost::intrusive::member_hook<SequenceGroup, boost::intrusive::set_member_hook<>,
                                    &SequenceGroup::starvation_hook>,
      boost::intrusive::compare<ByDeadline>>;

  void place(SequenceGroup& group, int64_t level, int64_t units);

  int64_t delay_;  // steps
  Set waiting_;
  int64_t next_order_ = 0;
};

}  // namespace quire
