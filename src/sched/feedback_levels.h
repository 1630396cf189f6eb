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
// Starvation guard: a request without progress for longer than the bound moves to level 0. Its quantum is
// then the rest of its prompt plus the quantum of level 0.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "sched/request.h"

namespace quire {

class FeedbackLevels {
 public:
  static constexpr int64_t kNumLevels = 8;
  static constexpr int64_t kFirstQuantum = 16;  // iterations
  static constexpr int64_t kPromptTokens = 16;  // prompt tokens per iteration

  ~FeedbackLevels() { waiting_.clear(); }

  // Work units: tokens of a prompt.
  static constexpr int64_t quantum(int64_t level) { return (kFirstQuantum * kPromptTokens) << level; }
  static int64_t first_level(int64_t num_prompt_tokens);

  void enter(SequenceGroup& group);
  // Charges work that the group did at `now`. Returns true if it was demoted.
  bool charge(SequenceGroup& group, int64_t units, double now);
  void promote(SequenceGroup& group, double now);

  // The list of waiting groups, in order of last progress.
  void push_waiting(SequenceGroup& group);
  void remove_waiting(SequenceGroup& group);
  // Starts the starvation timers of groups that were added since the last call.
  void begin_step(double now);
  // A group that has waited for longer than `bound` seconds, or null.
  SequenceGroup* starving(double now, double bound);
  static bool starves(const SequenceGroup& group, double now, double bound) {
    return group.rank.level > 0 && now - group.last_progress > bound;
  }

 private:
  using List = boost::intrusive::list<
      SequenceGroup, boost::intrusive::member_hook<SequenceGroup, boost::intrusive::list_member_hook<>,
                                                   &SequenceGroup::starvation_hook>>;

  void place(SequenceGroup& group, int64_t level, int64_t units);

  List waiting_;  // ascending last_progress, then groups not yet seen by begin_step()
  int64_t next_order_ = 0;
};

}  // namespace quire
