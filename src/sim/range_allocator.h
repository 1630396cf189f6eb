// Contiguous ranges of one pool of slots, as serving systems dealt them out before paging. Used by one
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "sim/replica.h"

namespace quire::sim {

struct Range {
  int64_t begin = -1;  // -1: none
  int64_t size = 0;    // what is taken, at least what was asked for
};

class RangePool {
 public:
  virtual ~RangePool() = default;
  // A free range of at least `size` slots; begin -1 where there is none.
  virtual Range take(int64_t size) = 0;
  virtual void give_back(const Range& range) = 0;
  virtual int64_t num_free() const = 0;
};

// The lowest free range that is long enough, cut to size; neighbours grow together again.
class FirstFitPool final : public RangePool {
 public:
  explicit FirstFitPool(int64_t num_slots);
  Range take(int64_t size) override;
  void give_back(const Range& range) override;
  int64_t num_free() const override { return num_free_; }

 private:
  std::map<int64_t, int64_t> free_;  // begin -> size, no two of them adjacent
  int64_t num_free_;
};

// Ranges are powers of two of kSmallest slots on; a free one is halved until it is just large enough, and two
// free halves are one again. A pool of another size is cut into the largest such ranges.
class BuddyPool final : public RangePool {
 public:
  static constexpr int64_t kSmallest = 16;

  explicit BuddyPool(int64_t num_slots);
  Range take(int64_t size) override;
  void give_back(const Range& range) override;
  int64_t num_free() const override { return num_free_; }

 private:
  std::vector<std::set<int64_t>> free_;  // [order]: begins of the free ranges of kSmallest << order slots
  std::map<int64_t, int64_t> whole_;     // begin -> size of the ranges that were cut from the pool at first
  int64_t num_free_ = 0;
};

std::unique_ptr<RangePool> make_range_pool(RangeAllocator allocator, int64_t num_slots);

}  // namespace quire::sim
