#include "sched/adapter_turns.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace quire {

void AdapterTurns::enter(SequenceGroup& group, int64_t step) {
  const int32_t id = group.request.adapter.id;
  if (id == 0) return;
  const auto [entry, added] = turns_.try_emplace(id);
  AdapterTurn& turn = entry->second;
  if (added) {
    turn.order = next_order_++;
    turn.since = step;
    turn.served = !limited();
  }
  ++turn.num_requests;
  group.turn = &turn;
}

void AdapterTurns::leave(SequenceGroup& group, int64_t step) {
  AdapterTurn* turn = std::exchange(group.turn, nullptr);
  if (turn == nullptr || --turn->num_requests > 0) return;
  if (turn->listed) std::erase(listed_, turn);
  const bool was_limited = limited();
  turns_.erase(group.request.adapter.id);
  if (was_limited && !limited()) end_turns(step);
}

// From now on all are served.
void AdapterTurns::end_turns(int64_t step) {
  taking_turns_ = false;
  listed_.clear();
  for (auto& [id, turn] : turns_) {
    turn.listed = false;
    if (!turn.served) turn.since = step;
    turn.served = true;
  }
}

void AdapterTurns::list(AdapterTurn& turn, int64_t step, bool keeps_place) {
  listed_.push_back(&turn);
  turn.listed = true;
  if (keeps_place) return;
  turn.served = false;
  turn.since = step;
}

void AdapterTurns::choose(std::span<Sequence* const> running, int64_t step) {
  if (!limited()) return;
  // Those that were served when there was room for all begin with a place.
  const bool begins = !std::exchange(taking_turns_, true);
  for (AdapterTurn* turn : listed_) turn->runs = false;
  for (const Sequence* sequence : running) {
    AdapterTurn* turn = sequence->group->turn;
    if (turn == nullptr) continue;
    if (!turn->listed) list(*turn, step, begins && turn->served);
    turn->runs = true;
  }
  std::erase_if(listed_, [](AdapterTurn* turn) {
    if (!turn->runs) turn->listed = turn->served = false;
    return !turn->runs;
  });
  if (begins) {
    for (auto& [id, turn] : turns_) turn.served = turn.served && turn.listed;
  }
  // Waiting ones first, then those that are served; the oldest first.
  std::ranges::sort(listed_, {}, [](const AdapterTurn* turn) {
    return std::tuple(turn->served, turn->since, turn->order);
  });
  const auto end_of_waiting = std::ranges::find(listed_, true, &AdapterTurn::served);
  auto oldest = end_of_waiting;
  num_served_ = static_cast<size_t>(listed_.end() - end_of_waiting);
  for (auto waiting = listed_.begin(); waiting != end_of_waiting; ++waiting) {
    if (num_served_ < max_adapters_) {
      ++num_served_;
    } else if (oldest != listed_.end() && step - (*oldest)->since >= kQuantum) {
      (*oldest)->served = false;
      (*oldest)->since = step;
      ++oldest;
    } else {
      break;
    }
    (*waiting)->served = true;
    (*waiting)->since = step;
  }
}

bool AdapterTurns::join(SequenceGroup& group, int64_t step) {
  if (limited() && group.turn != nullptr && !group.turn->listed) {
    list(*group.turn, step, false);
    if (num_served_ < max_adapters_) {
      ++num_served_;
      group.turn->served = true;
    }
  }
  return serves(group);
}

void AdapterTurns::check_integrity() const {
  size_t num_listed = 0;
  size_t num_served = 0;
  for (const auto& [id, turn] : turns_) {
    if (turn.num_requests < 1) throw Error(cat("adapter ", id, ": has a turn, but no request"));
    if (turn.listed) ++num_listed;
    if (turn.served) ++num_served;
  }
  if (num_listed != listed_.size() || (taking_turns_ && num_served > max_adapters_)) {
    throw Error(cat(num_listed, " adapters take turns, the list has ", listed_.size(), "; ", num_served,
                    " are served, ", max_adapters_, " may be (--max-loras)"));
  }
}

}  // namespace quire
