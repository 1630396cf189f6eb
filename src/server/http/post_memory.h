// Reserved memory for one post to a strand (private to http/).
//
// A post allocates twice: Asio queues the function in the strand, and then schedules the strand. If the
// second allocation fails, the strand counts as scheduled and never runs again, so that its connection hangs.
// With reserved memory neither allocation fails.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <new>

namespace quire {

// Any thread. Serves two allocations at a time; further or larger ones come from the heap.
class PostMemory {
 public:
  static constexpr size_t kNumSlots = 2;
  static constexpr size_t kSlotBytes = 192;

  void* allocate(size_t bytes) {
    for (Slot& slot : slots_) {
      if (bytes <= kSlotBytes && !slot.used.exchange(true, std::memory_order_acquire))
        return slot.bytes.data();
    }
    return ::operator new(bytes);
  }
  void deallocate(void* memory) noexcept {
    for (Slot& slot : slots_) {
      if (memory == slot.bytes.data()) return slot.used.store(false, std::memory_order_release);
    }
    ::operator delete(memory);
  }

 private:
  struct Slot {
    alignas(std::max_align_t) std::array<std::byte, kSlotBytes> bytes;
    std::atomic<bool> used{false};
  };
  std::array<Slot, kNumSlots> slots_;
};

// The allocator of a handler that is posted, for asio::bind_allocator(). Keeps the memory alive.
template <typename T>
class PostAllocator {
 public:
  using value_type = T;

  explicit PostAllocator(std::shared_ptr<PostMemory> memory) : memory_(std::move(memory)) {}
  template <typename Other>
  PostAllocator(const PostAllocator<Other>& other) : memory_(other.memory()) {}  // NOLINT: allocators convert

  T* allocate(size_t count) { return static_cast<T*>(memory_->allocate(count * sizeof(T))); }
  void deallocate(T* memory, size_t) noexcept { memory_->deallocate(memory); }
  const std::shared_ptr<PostMemory>& memory() const { return memory_; }

  template <typename Other>
  bool operator==(const PostAllocator<Other>& other) const {
    return memory_ == other.memory();
  }

 private:
  std::shared_ptr<PostMemory> memory_;
};

}  // namespace quire
