// The multi-level feedback queue with skip-join (Wu et al., "Fast Distributed Inference Serving for Large
// Language Models", arXiv 2305.05920). Owned by Scheduler; engine thread only.
//
//   level     0     1     2    ...   7
//   quantum  16    32    64   ...  2048      iterations; a decoded token is one, kPromptTokens of a prompt
//   too
//
// A request enters at the first level whose quantum covers its prompt, sinks a level when its quantum is used
// up, and is served by level, within a level first come first served. Nobody knows how long an answer gets;
// who has had little work so far is likely to be done soon. Only work that was not done before counts, so
// being preempted costs no quantum.
//
// Starvation guard: whoever made no progress for longer than the bound comes to level 0, with a quantum for
// what is left of its prompt and the quantum of that level on top.
#pragma once

#include <boost/intrusive/list.hpp>
#include <cstdint>

#include "sched/request.h"

namespace quire {

class FeedbackLevels {
 public:
  static constexpr int64_t kNumLevels = 8;
  static constexpr int64_t kFirstQuantum = 16;  // iterations
  static constexpr int64_t kPromptTokens = 16;  // so many tokens of a prompt are worth an iteration

  ~FeedbackLevels() { waiting_.clear(); }

  // Work units: tokens of a prompt.
  static constexpr int64_t quantum(int64_t level) { return (kFirstQuantum * kPromptTokens) << level; }
  static int64_t first_level(int64_t num_prompt_tokens);

  void enter(SequenceGroup& group);
  // The group did this work at `now`. True when it sank.
  bool charge(SequenceGroup& group, int64_t units, double now);
  void promote(SequenceGroup& group, double now);

  // The list of those who wait, by their last progress.
  void push_waiting(SequenceGroup& group);
  void remove_waiting(SequenceGroup& group);
  // Starts the patience of those who came since the last call.
  void begin_step(double now);
  // A group that waits for longer than `bound` seconds; nullptr when there is none.
  SequenceGroup* starving(double now, double bound);
  static bool starves(const SequenceGroup& group, double now, double bound) {
    return group.rank.level > 0 && now - group.last_progress > bound;
  }

 private:
  using List = boost::intrusive::list<
      SequenceGroup, boost::intrusive::member_hook<SequenceGroup, boost::intrusive::list_member_hook<>,
                                                   &SequenceGroup::patience_hook>>;

  void place(SequenceGroup& group, int64_t level, int64_t units);

  List waiting_;  // ascending last_progress; those not yet seen at the end
  int64_t next_place_ = 0;
};

}  // namespace quire
