// The requests that wait for blocks or a seat, in the order they are served. Owned by Scheduler; engine
// thread only.
//
// By rank, or by client: then those who ran already come first (by rank), behind them the first request of
// the client that has had the least (sched/clients.h).
#pragma once

#include "sched/clients.h"
#include "sched/group_set.h"

namespace quire {

class WaitingQueue {
 public:
  // Without `clients`: by rank alone.
  explicit WaitingQueue(ClientTable* clients) : clients_(clients) {}

  bool empty() const { return by_rank_.empty() && (clients_ == nullptr || clients_->empty()); }

  // The one served next; nullptr when none waits.
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
  // Must answer the same in push() and remove().
  bool by_client(const SequenceGroup& group) const { return clients_ != nullptr && !group.started; }

  GroupSet by_rank_;
  ClientTable* clients_;
};

}  // namespace quire
