// The sequences that wait for blocks or a seat, in the order they are served: an intrusive list. Owned by
// Scheduler.
#pragma once

#include "sched/request.h"

namespace quire {

class WaitingQueue {
 public:
  bool empty() const { return head_ == nullptr; }
  Sequence* front() const { return head_; }
  int32_t size() const { return size_; }

  // Inserts where served_before says, looking from the end (a new request) or from the head (a preempted
  // sequence).
  void push_new(Sequence& sequence);
  void push_preempted(Sequence& sequence);
  void remove(Sequence& sequence);

 private:
  void insert_before(Sequence& sequence, Sequence* next);

  Sequence* head_ = nullptr;
  Sequence* tail_ = nullptr;
  int32_t size_ = 0;
};

}  // namespace quire
