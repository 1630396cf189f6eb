// All requests that have not ended, by id. Owns the records; engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

#include "sched/request.h"

namespace quire {

class RequestTable {
 public:
  // A new group with all its samples, of which the first is kWaiting and the others are kPendingFork.
  // place: from reserve_place(), or nullopt for the next one.
  SequenceGroup& add(Request request, std::optional<int64_t> place = std::nullopt);
  int64_t reserve_place() { return next_arrival_order_++; }
  void erase(SequenceGroup& group);

  // Null if the id is unknown.
  SequenceGroup* find_group(RequestId id) const;
  Sequence* find_sequence(SeqId id) const;
  const auto& groups() const { return groups_; }

  // Makes a forked sample known by its id, or a released one unknown.
  void add_sequence(Sequence& sequence) { sequences_.emplace(sequence.id, &sequence); }
  void remove_sequence(const Sequence& sequence) { sequences_.erase(sequence.id); }
  size_t num_sequences() const { return sequences_.size(); }

  // Slots of max_num_seqs. Samples take theirs before they are forked; beams keep theirs while any beam of
  // the search is active. Call after a change of num_running or forked.
  void update_slots(SequenceGroup& group);
  int32_t num_slots_taken() const { return num_slots_taken_; }

  int32_t num_waiting = 0;  // samples in the state kWaiting

 private:
  std::unordered_map<RequestId, std::unique_ptr<SequenceGroup>> groups_;
  std::unordered_map<SeqId, Sequence*> sequences_;  // samples with block tables
  int32_t num_slots_taken_ = 0;
  int64_t next_arrival_order_ = 0;
  SeqId next_seq_ = 0;
};

// Slots that the waiting samples of a group need in order to run.
int32_t slots_wanted(const SequenceGroup& group);

}  // namespace quire
