#include "sched/waiting_queue.h"

namespace quire {

void WaitingQueue::push_new(Sequence& sequence) {
  Sequence* prev = tail_;
  while (prev != nullptr && served_before(sequence, *prev)) prev = prev->prev;
  insert_before(sequence, prev == nullptr ? head_ : prev->next);
}

void WaitingQueue::push_preempted(Sequence& sequence) {
  Sequence* next = head_;
  while (next != nullptr && served_before(*next, sequence)) next = next->next;
  insert_before(sequence, next);
}

void WaitingQueue::remove(Sequence& sequence) {
  (sequence.prev == nullptr ? head_ : sequence.prev->next) = sequence.next;
  (sequence.next == nullptr ? tail_ : sequence.next->prev) = sequence.prev;
  sequence.prev = sequence.next = nullptr;
  --size_;
}

void WaitingQueue::insert_before(Sequence& sequence, Sequence* next) {
  Sequence* prev = next == nullptr ? tail_ : next->prev;
  sequence.prev = prev;
  sequence.next = next;
  (prev == nullptr ? head_ : prev->next) = &sequence;
  (next == nullptr ? tail_ : next->prev) = &sequence;
  ++size_;
}

}  // namespace quire
