#include "support/allocations.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> num_calls{0};
std::atomic<int64_t> num_bytes{0};
std::atomic<int64_t> peak_bytes{0};

}  // namespace

namespace quire::test {

int64_t allocation_count() {
  return num_calls;
}

AllocationPeak::AllocationPeak() : at_begin_(num_bytes) {
  peak_bytes = at_begin_;
}

int64_t AllocationPeak::bytes() const {
  return peak_bytes - at_begin_;
}

}  // namespace quire::test

#if !defined(QUIRE_ADDRESS_SANITIZER) && !defined(QUIRE_THREAD_SANITIZER)

// The other forms call these, except those for extended alignment, which are not counted.
void* operator new(size_t size) {
  void* memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  num_calls.fetch_add(1, std::memory_order_relaxed);
  const auto usable = static_cast<int64_t>(::malloc_usable_size(memory));
  const int64_t now = num_bytes.fetch_add(usable, std::memory_order_relaxed) + usable;
  int64_t peak = peak_bytes.load(std::memory_order_relaxed);
  while (now > peak && !peak_bytes.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  return memory;
}

void operator delete(void* memory) noexcept {
  num_bytes.fetch_sub(static_cast<int64_t>(::malloc_usable_size(memory)), std::memory_order_relaxed);
  std::free(memory);
}

void operator delete(void* memory, size_t) noexcept {
  operator delete(memory);
}

#endif
