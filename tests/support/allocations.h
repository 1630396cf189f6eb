// Counts what the program allocates with `new`: memory and calls. Programs that use it are linked with
// allocations.cc.
#pragma once

#include <cstdint>

#include "support/sanitizers.h"

namespace quire::test {

// Sanitizers have their own `new`, which is not counted.
inline constexpr bool kCountsAllocations = !kSanitizer;

// The calls of `new` by all threads since the program started.
int64_t allocation_count();

// The most memory that all threads have had at once since its construction, in addition to what they had
// then. One at a time.
class AllocationPeak {
 public:
  AllocationPeak();
  int64_t bytes() const;

 private:
  int64_t at_begin_;
};

}  // namespace quire::test
