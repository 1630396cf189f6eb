// What the policies do with ranks: the one place where they differ.
//
//             level          place in it          takes the place of higher levels
//   fcfs      0              arrival              no
//   priority  the priority   arrival              yes
//   mlfq      0 .. 7         entry to the level   yes
//   fair      0              first admission      no; who is admitted next: sched/clients.h
#include <algorithm>

#include "sched/scheduler.h"

namespace quire {

void Scheduler::enter_policy(SequenceGroup& group, int64_t client) {
  switch (config_.policy) {
    case SchedulingPolicy::kFcfs:
      group.rank = {0, group.order};
      break;
    case SchedulingPolicy::kPriority:
      group.rank = {group.priority, group.order};
      break;
    case SchedulingPolicy::kMlfq:
      levels_.enter(group);
      break;
    case SchedulingPolicy::kFair:
      // Among the requests of its client, until it is admitted.
      group.rank = {0, group.order};
      clients_.enter(group, client);
      break;
  }
}

void Scheduler::leave_policy(SequenceGroup& group) {
  if (group.client != nullptr) clients_.leave(group);
}

void Scheduler::push_waiting(SequenceGroup& group) {
  waiting_.push(group);
  if (config_.policy == SchedulingPolicy::kMlfq) levels_.push_waiting(group);
}

void Scheduler::remove_waiting(SequenceGroup& group) {
  waiting_.remove(group);
  if (config_.policy == SchedulingPolicy::kMlfq) levels_.remove_waiting(group);
}

// `change` may give the group another rank, and says whether it did. A group may wait and run, each with some
// of its samples.
template <class Change>
void Scheduler::change_rank(SequenceGroup& group, Change change) {
  const bool waits = group.num_waiting > 0 && !group.loading;
  if (waits) remove_waiting(group);
  if (change() && group.num_running > 0) group.moved = any_moved_ = true;
  if (waits) push_waiting(group);
}

void Scheduler::promote_starving() {
  if (config_.policy != SchedulingPolicy::kMlfq) return;
  levels_.begin_step(now_);
  while (SequenceGroup* group = levels_.starving(now_, config_.starvation_bound)) promote(*group);
  sort_moved();
}

void Scheduler::promote(SequenceGroup& group) {
  change_rank(group, [&] {
    levels_.promote(group, now_);
    return true;
  });
}

// Puts the samples of running groups whose rank changed where they belong. O(running), and sorting for those
// alone.
void Scheduler::sort_moved() {
  if (!any_moved_) return;
  any_moved_ = false;
  moved_.clear();
  unmoved_.clear();
  for (Sequence* sequence : running_) (sequence->group->moved ? moved_ : unmoved_).push_back(sequence);
  const auto before = [](const Sequence* a, const Sequence* b) { return served_before(*a, *b); };
  std::sort(moved_.begin(), moved_.end(), before);
  std::merge(unmoved_.begin(), unmoved_.end(), moved_.begin(), moved_.end(), running_.begin(), before);
  for (const Sequence* sequence : moved_) sequence->group->moved = false;
}

// What was computed beyond what ever was before is work done for the group.
void Scheduler::charge_computed(Sequence& sequence, int32_t num_computed_before) {
  const int32_t begin = std::max(num_computed_before, sequence.num_served_tokens);
  const int32_t end = sequence.num_computed_tokens;
  if (end <= begin) return;
  sequence.num_served_tokens = end;
  SequenceGroup& group = *sequence.group;
  const int64_t num_prompt = std::clamp(group.num_prompt_tokens - begin, 0, end - begin);
  const int64_t units = num_prompt + (end - begin - num_prompt) * FeedbackLevels::kPromptTokens;
  change_rank(group, [&] { return levels_.charge(group, units, now_); });
}

}  // namespace quire
