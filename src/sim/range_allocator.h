// Allocates contiguous ranges of a pool of slots, as serving systems did before paging. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "sim/replica.h"

namespace quire::sim {

struct Range {
  int64_t begin = -1;  // -1 = no range
  int64_t size = 0;    // allocated slots, at least the requested number
};

class RangePool {
 public:
  virtual ~RangePool() = default;
  // Allocates at least `size` contiguous slots. Returns begin = -1 if no free range is large enough.
  virtual Range take(int64_t size) = 0;
  virtual void give_back(const Range& range) = 0;
  virtual int64_t num_free() const = 0;
};

// First fit: allocates from the lowest free range that is large enough. Adjacent free ranges are merged.
class FirstFitPool final : public RangePool {
 public:
  explicit FirstFitPool(int64_t num_slots);
  Range take(int64_t size) override;
  void give_back(const Range& range) override;
  int64_t num_free() const override { return num_free_; }

 private:
  std::map<int64_t, int64_t> free_;  // begin -> size; no two ranges are adjacent
  int64_t num_free_;
};

// Buddy allocator: sizes are powers of two, at least kSmallest. Free ranges are halved until they fit, and
// free buddies are merged. A pool of another size is split into the largest possible ranges.
class BuddyPool final : public RangePool {
 public:
  static constexpr int64_t kSmallest = 16;

  explicit BuddyPool(int64_t num_slots);
  Range take(int64_t size) override;
  void give_back(const Range& range) override;
  int64_t num_free() const override { return num_free_; }

 private:
  std::vector<std::set<int64_t>> free_;  // [order] first slots of the free ranges of kSmallest << order slots
  std::map<int64_t, int64_t> whole_;     // begin -> size of the initial ranges
  int64_t num_free_ = 0;
};

std::unique_ptr<RangePool> make_range_pool(RangeAllocator allocator, int64_t num_slots);

}  // namespace quire::sim
