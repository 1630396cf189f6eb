// Limits the different LoRA adapters of a step. While more of them have requests than a step may have, those
// with running requests take turns: one is served for at most kQuantum steps, and is followed by the one that
// has waited longest. One that begins to run is the last to wait. So an adapter waits for less than
// ceil(running adapters / max_adapters) quanta, whatever arrives meanwhile. Requests of the base model take
// no part.
//
// A turn lasts longer while no adapter waits; then the first one that comes ends it.
//
// Owned by Scheduler; engine thread only. `step` is the number of steps so far.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sched/request.h"

namespace quire {

// The turns of one adapter that has requests.
struct AdapterTurn {
  int64_t num_requests = 0;  // that have not ended
  int64_t since = 0;         // the step in which it began to be served, or to wait
  int64_t order = 0;         // of arrival
  bool served = false;       // its requests may be part of the step
  bool listed = false;       // takes part: some request of it runs
  bool runs = false;         // scratch of choose()
};

class AdapterTurns {
 public:
  static constexpr int64_t kQuantum = 16;  // steps

  explicit AdapterTurns(int32_t max_adapters) : max_adapters_(static_cast<size_t>(max_adapters)) {}

  // A request arrives or ends.
  void enter(SequenceGroup& group, int64_t step);
  void leave(SequenceGroup& group, int64_t step);

  // Whether adapters take turns. Changes only when a request arrives or ends.
  bool limited() const { return turns_.size() > max_adapters_; }

  // Chooses the adapters of a step, for the requests that run. May be called again while nothing is planned.
  // O(running + adapters log adapters) while adapters take turns.
  void choose(std::span<Sequence* const> running, int64_t step);
  // A request begins to run after choose(). Returns serves().
  bool join(SequenceGroup& group, int64_t step);
  // Whether the request may be part of the step.
  bool serves(const SequenceGroup& group) const {
    return !limited() || group.turn == nullptr || group.turn->served;
  }

  // Throws Error if the records are inconsistent.
  void check_integrity() const;

 private:
  void list(AdapterTurn& turn, int64_t step, bool keeps_place);
  void end_turns(int64_t step);

  size_t max_adapters_;
  std::unordered_map<int32_t, AdapterTurn> turns_;  // by AdapterRef::id
  std::vector<AdapterTurn*> listed_;                // while adapters take turns
  size_t num_served_ = 0;                           // of listed_
  int64_t next_order_ = 0;
  bool taking_turns_ = false;  // choose() has run since limited() became true
};

}  // namespace quire
