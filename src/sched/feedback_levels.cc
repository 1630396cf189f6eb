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

void FeedbackLevels::enter(SequenceGroup& group) {
  const int64_t level = first_level(group.num_prompt_tokens);
  place(group, level, quantum(level));
}

bool FeedbackLevels::charge(SequenceGroup& group, int64_t units, double now) {
  group.last_progress = now;
  group.quantum_left -= units;
  if (group.quantum_left > 0 || group.rank.level + 1 >= kNumLevels) return false;
  place(group, group.rank.level + 1, quantum(group.rank.level + 1));
  return true;
}

void FeedbackLevels::promote(SequenceGroup& group, double now) {
  int64_t left_of_prompt = 0;
  for (const Sequence& sample : group.samples) {
    if (sample.table >= 0) left_of_prompt += std::max(0, group.num_prompt_tokens - sample.num_served_tokens);
  }
  place(group, 0, left_of_prompt + quantum(0));
  group.last_progress = now;
}

void FeedbackLevels::push_waiting(SequenceGroup& group) {
  auto at = waiting_.end();
  if (group.last_progress >= 0.0) {
    while (at != waiting_.begin()) {
      const SequenceGroup& before = *std::prev(at);
      if (before.last_progress >= 0.0 && before.last_progress <= group.last_progress) break;
      --at;
    }
  }
  waiting_.insert(at, group);
}

void FeedbackLevels::remove_waiting(SequenceGroup& group) {
  waiting_.erase(waiting_.iterator_to(group));
}

void FeedbackLevels::begin_step(double now) {
  for (auto at = waiting_.rbegin(); at != waiting_.rend() && at->last_progress < 0.0; ++at)
    at->last_progress = now;
}

SequenceGroup* FeedbackLevels::starving(double now, double bound) {
  // Groups of level 0 cannot be promoted: their timers restart.
  while (!waiting_.empty() && now - waiting_.front().last_progress > bound) {
    SequenceGroup& group = waiting_.front();
    if (group.rank.level > 0) return &group;
    group.last_progress = now;
    waiting_.splice(waiting_.end(), waiting_, waiting_.begin());
  }
  return nullptr;
}

}  // namespace quire
