#include "sched/request_queues.h"

#include "base/error.h"
#include "base/strings.h"

namespace quire {

RequestQueues::RequestQueues(SchedulingPolicy policy, int64_t guard_delay)
    : policy_(policy),
      levels_(guard_delay),
      waiting_(policy == SchedulingPolicy::kFair ? &clients_ : nullptr) {}

bool RequestQueues::preempts() const {
  return policy_ == SchedulingPolicy::kPriority || policy_ == SchedulingPolicy::kMlfq;
}

void RequestQueues::enter(SequenceGroup& group, int64_t step) {
  switch (policy_) {
    case SchedulingPolicy::kFcfs:
      group.rank = {0, group.arrival_order};
      break;
    case SchedulingPolicy::kPriority:
      group.rank = {group.request.priority, group.arrival_order};
      break;
    case SchedulingPolicy::kMlfq:
      levels_.enter(group, step);
      break;
    case SchedulingPolicy::kFair:
      // Orders the requests of one client until the first admission.
      group.rank = {0, group.arrival_order};
      clients_.enter(group, group.request.client_id);
      break;
  }
}

void RequestQueues::leave(SequenceGroup& group) {
  if (group.client != nullptr) clients_.leave(group);
}

void RequestQueues::note_first_admission(SequenceGroup& group, int32_t num_tokens) {
  if (policy_ != SchedulingPolicy::kFair) return;
  group.rank = {0, next_admission_++};
  ClientTable::charge(group, ClientTable::kInputWeight * num_tokens);
}

void RequestQueues::charge_generated(const SequenceGroup& group, int64_t num_tokens) {
  if (policy_ == SchedulingPolicy::kFair) ClientTable::charge(group, ClientTable::kOutputWeight * num_tokens);
}

// Only tokens that were never computed before count as work.
void RequestQueues::charge_computed(Sequence& sequence, int32_t num_computed_before, int64_t step) {
  if (policy_ != SchedulingPolicy::kMlfq) return;
  const int32_t begin = std::max(num_computed_before, sequence.num_served_tokens);
  const int32_t end = sequence.num_computed_tokens;
  if (end <= begin) return;
  sequence.num_served_tokens = end;
  SequenceGroup& group = *sequence.group;
  const int64_t num_prompt = std::clamp(group.num_prompt_tokens - begin, 0, end - begin);
  const int64_t units = num_prompt + (end - begin - num_prompt) * FeedbackLevels::kPromptTokens;
  change_rank(group, [&] { return levels_.charge(group, units, step); });
}

void RequestQueues::promote_starving_waiting(int64_t step) {
  if (policy_ != SchedulingPolicy::kMlfq) return;
  while (SequenceGroup* group = levels_.starving(step)) promote(*group);
  sort_running();
}

void RequestQueues::promote_starving_running(size_t begin, int64_t step) {
  if (policy_ != SchedulingPolicy::kMlfq) return;
  for (size_t i = begin; i < running_.size(); ++i) {
    SequenceGroup& group = *running_[i]->group;
    if (FeedbackLevels::starves(group, step)) promote(group);
  }
  sort_running();
}

void RequestQueues::promote(SequenceGroup& group) {
  change_rank(group, [&] {
    levels_.promote(group);
    return true;
  });
}

// `change` may give the group another rank and returns whether it did. A group may be in the waiting queue
// and in the running list at once, with different samples.
template <class Change>
void RequestQueues::change_rank(SequenceGroup& group, Change change) {
  const bool waits = group.num_waiting > 0 && !group.loading;
  if (waits) remove_waiting(group);
  if (change() && group.num_running > 0) group.rank_changed = any_rank_changed_ = true;
  if (waits) push_waiting(group);
}

void RequestQueues::push_waiting(SequenceGroup& group) {
  waiting_.push(group);
  if (policy_ == SchedulingPolicy::kMlfq) levels_.push_waiting(group);
}

void RequestQueues::remove_waiting(SequenceGroup& group) {
  waiting_.remove(group);
  if (policy_ == SchedulingPolicy::kMlfq) levels_.remove_waiting(group);
}

void RequestQueues::begin_loading(SequenceGroup& group) {
  remove_waiting(group);
  group.loading = true;
  loading_.push_back(&group);
}

void RequestQueues::end_loading(SequenceGroup& group) {
  std::erase(loading_, &group);
}

void RequestQueues::insert_running(Sequence& sequence) {
  const auto at =
      std::upper_bound(running_.begin(), running_.end(), &sequence,
                       [](const Sequence* a, const Sequence* b) { return scheduled_before(*a, *b); });
  running_.insert(at, &sequence);
}

void RequestQueues::sort_running() {
  if (!any_rank_changed_) return;
  any_rank_changed_ = false;
  moved_.clear();
  unmoved_.clear();
  for (Sequence* sequence : running_) (sequence->group->rank_changed ? moved_ : unmoved_).push_back(sequence);
  const auto before = [](const Sequence* a, const Sequence* b) { return scheduled_before(*a, *b); };
  std::sort(moved_.begin(), moved_.end(), before);
  std::merge(unmoved_.begin(), unmoved_.end(), moved_.begin(), moved_.end(), running_.begin(), before);
  for (const Sequence* sequence : moved_) sequence->group->rank_changed = false;
}

size_t RequestQueues::index_in_running(const SequenceGroup& group) const {
  const auto at = std::partition_point(running_.begin(), running_.end(), [&](const Sequence* sequence) {
    return sequence->group->rank < group.rank;
  });
  return static_cast<size_t>(at - running_.begin());
}

bool RequestQueues::runs_alone(const SequenceGroup& group) const {
  return running_.empty() || (running_.front()->group == &group && running_.back()->group == &group);
}

void RequestQueues::check_integrity() const {
  clients_.check_integrity();
  for (size_t i = 0; i < running_.size(); ++i) {
    const Sequence& sequence = *running_[i];
    if (sequence.state != SequenceState::kRunning)
      throw Error(cat("sequence ", sequence.id, ": in the running list, but not in the state kRunning"));
    if (i > 0 && !scheduled_before(*running_[i - 1], sequence))
      throw Error(cat("sequence ", sequence.id, ": out of order in the running list"));
  }
}

}  // namespace quire
