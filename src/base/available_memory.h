// Memory of the machine, or of the control group that limits this process.
#pragma once

#include <cstdint>

namespace quire {

struct AvailableMemory {
  int64_t bytes = 0;        // that this process can still allocate
  int64_t total_bytes = 0;  // installed memory
  bool exact = true;  // false: /proc/meminfo cannot be read, so that the page cache counts as used memory
};

// Logs a warning if the result is not exact.
AvailableMemory available_memory();

}  // namespace quire
