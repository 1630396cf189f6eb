#include "sim/range_allocator.h"

#include <bit>
#include <iterator>

namespace quire::sim {

FirstFitPool::FirstFitPool(int64_t num_slots) : num_free_(num_slots) {
  if (num_slots > 0) free_.emplace(0, num_slots);
}

Range FirstFitPool::take(int64_t size) {
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < size) continue;
    const Range range{it->first, size};
    const int64_t rest = it->second - size;
    free_.erase(it);
    if (rest > 0) free_.emplace(range.begin + size, rest);
    num_free_ -= size;
    return range;
  }
  return {};
}

void FirstFitPool::give_back(const Range& range) {
  num_free_ += range.size;
  auto [it, fresh] = free_.emplace(range.begin, range.size);
  const auto next = std::next(it);
  if (next != free_.end() && it->first + it->second == next->first) {
    it->second += next->second;
    free_.erase(next);
  }
  if (it == free_.begin()) return;
  const auto before = std::prev(it);
  if (before->first + before->second != it->first) return;
  before->second += it->second;
  free_.erase(it);
}

BuddyPool::BuddyPool(int64_t num_slots) {
  int64_t begin = 0;
  while (num_slots - begin >= kSmallest) {
    const int64_t size = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(num_slots - begin)));
    const auto order = static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(size / kSmallest)));
    if (free_.size() <= order) free_.resize(order + 1);
    free_[order].insert(begin);
    whole_.emplace(begin, size);
    begin += size;
  }
  num_free_ = begin;
}

Range BuddyPool::take(int64_t size) {
  const uint64_t units = static_cast<uint64_t>((size + kSmallest - 1) / kSmallest);
  const auto wanted = static_cast<size_t>(std::countr_zero(std::bit_ceil(units)));
  size_t order = wanted;
  while (order < free_.size() && free_[order].empty()) ++order;
  if (order >= free_.size()) return {};
  const int64_t begin = *free_[order].begin();
  free_[order].erase(free_[order].begin());
  for (; order > wanted; --order) free_[order - 1].insert(begin + (kSmallest << (order - 1)));
  num_free_ -= kSmallest << wanted;
  return {begin, kSmallest << wanted};
}

void BuddyPool::give_back(const Range& range) {
  num_free_ += range.size;
  const auto cut = std::prev(whole_.upper_bound(range.begin));
  int64_t begin = range.begin;
  int64_t size = range.size;
  auto order = static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(size / kSmallest)));
  for (; size < cut->second; ++order, size *= 2) {
    // The buddy's position follows from the range's offset in its initial range.
    const int64_t offset = begin - cut->first;
    const int64_t buddy = cut->first + (offset ^ size);
    if (free_[order].erase(buddy) == 0) break;
    begin = begin < buddy ? begin : buddy;
  }
  free_[order].insert(begin);
}

std::unique_ptr<RangePool> make_range_pool(RangeAllocator allocator, int64_t num_slots) {
  if (allocator == RangeAllocator::kFirstFit) return std::make_unique<FirstFitPool>(num_slots);
  return std::make_unique<BuddyPool>(num_slots);
}

}  // namespace quire::sim
