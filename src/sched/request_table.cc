#include "sched/request_table.h"

#include <utility>

namespace quire {

SequenceGroup& RequestTable::add(Request request, std::optional<int64_t> place) {
  auto owned = std::make_unique<SequenceGroup>();
  SequenceGroup& group = *owned;
  group.id = request.id;
  group.arrival_order = place ? *place : reserve_place();
  group.num_prompt_tokens = static_cast<int32_t>(request.prompt_token_ids.size());
  group.num_unfinished = request.sampling->num_sequences();
  group.forked = group.num_unfinished == 1;
  group.num_held = 1;
  group.samples.resize(static_cast<size_t>(group.num_unfinished));
  for (size_t i = 0; i < group.samples.size(); ++i) {
    Sequence& sample = group.samples[i];
    sample.group = &group;
    sample.id = next_seq_++;
    sample.index = static_cast<int32_t>(i);
  }
  Sequence& first = group.samples.front();
  first.token_ids = std::move(request.prompt_token_ids);
  first.state = SequenceState::kWaiting;
  group.num_waiting = 1;
  group.request = std::move(request);
  ++num_waiting;
  add_sequence(first);
  groups_.emplace(group.id, std::move(owned));
  return group;
}

void RequestTable::erase(SequenceGroup& group) {
  groups_.erase(group.id);
}

SequenceGroup* RequestTable::find_group(RequestId id) const {
  const auto it = groups_.find(id);
  return it == groups_.end() ? nullptr : it->second.get();
}

Sequence* RequestTable::find_sequence(SeqId id) const {
  const auto it = sequences_.find(id);
  return it == sequences_.end() ? nullptr : it->second;
}

void RequestTable::update_slots(SequenceGroup& group) {
  const bool all = group.num_running > 0 && (!group.forked || group.uses_beam_search());
  const int32_t num_slots = all ? group.num_sequences() : group.num_running;
  num_slots_taken_ += num_slots - group.num_slots;
  group.num_slots = num_slots;
}

int32_t slots_wanted(const SequenceGroup& group) {
  return group.forked && !group.uses_beam_search() ? group.num_waiting : group.num_sequences();
}

}  // namespace quire
