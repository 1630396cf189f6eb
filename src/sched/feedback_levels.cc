#include "sched/feedback_levels.h"

#include <algorithm>

namespace quire {

int64_t FeedbackLevels::first_level(int64_t num_prompt_tokens) {
  int64_t level = 0;
  while (level + 1 < kNumLevels && quantum(level) < num_prompt_tokens) ++level;
  return level;
}

void FeedbackLevels::place(SequenceGroup& group, int64_t level, int64_t units) {
  group.rank = {level, next_order_++};
  group.quantum_left = units;
}

void FeedbackLevels::enter(SequenceGroup& group, int64_t step) {
  group.home_level = first_level(group.num_prompt_tokens);
  group.deadline = step + delay_;
  place(group, group.home_level, quantum(group.home_level));
}

bool FeedbackLevels::charge(SequenceGroup& group, int64_t units, int64_t step) {
  if (group.last_step != step) {  // several samples may take part in one step
    group.last_step = step;
    group.deadline += kShare;
  }
  group.quantum_left -= units;
  if (group.quantum_left > 0) return false;
  if (group.rank.level != kTop) {
    if (group.home_level + 1 >= kNumLevels) return false;
    ++group.home_level;
  }
  place(group, group.home_level, quantum(group.home_level));
  return true;
}

void FeedbackLevels::promote(SequenceGroup& group) {
  int64_t left_of_prompt = 0;
  for (const Sequence& sample : group.samples) {
    if (sample.table >= 0) left_of_prompt += std::max(0, group.num_prompt_tokens - sample.num_served_tokens);
  }
  place(group, kTop, left_of_prompt + quantum(group.home_level));
}

void FeedbackLevels::push_waiting(SequenceGroup& group) {
  if (group.rank.level != kTop) waiting_.insert(group);
}

void FeedbackLevels::remove_waiting(SequenceGroup& group) {
  if (group.starvation_hook.is_linked()) waiting_.erase(waiting_.iterator_to(group));
}

SequenceGroup* FeedbackLevels::starving(int64_t step) {
  return !waiting_.empty() && waiting_.begin()->deadline < step ? &*waiting_.begin() : nullptr;
}

}  // namespace quire
