// The requests that wait for blocks or a slot of max_num_seqs, in scheduling order. Owned by RequestQueues;
// engine thread only.
//
// The order is by rank. With fair sharing between clients, preempted requests come first, by rank; then the
// first request of the client that was served least (sched/clients.h).
#pragma once

#include "sched/clients.h"
#include "sched/group_set.h"

namespace quire {

class WaitingQueue {
 public:
  // clients: for fair sharing; null = by rank only.
  explicit WaitingQueue(ClientTable* clients) : clients_(clients) {}

  bool empty() const { return by_rank_.empty() && (clients_ == nullptr || clients_->empty()); }

  // The next request to admit; null if none waits.
  SequenceGroup* front() {
    if (!by_rank_.empty()) return &*by_rank_.begin();
    return clients_ == nullptr ? nullptr : clients_->front();
  }

  void push(SequenceGroup& group) {
    if (by_client(group)) {
      clients_->push(group);
    } else {
      by_rank_.insert(group);
    }
  }

  void remove(SequenceGroup& group) {
    if (by_client(group)) {
      clients_->remove(group);
    } else {
      by_rank_.erase(by_rank_.iterator_to(group));
    }
  }

  static bool contains(const SequenceGroup& group) { return group.queue_hook.is_linked(); }

 private:
  // Must return the same in push() and remove().
  bool by_client(const SequenceGroup& group) const { return clients_ != nullptr && !group.started; }

  GroupSet by_rank_;
  ClientTable* clients_;
};

}  // namespace quire
