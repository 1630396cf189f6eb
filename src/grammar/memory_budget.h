// Limits the memory that the expressions of one specification occupy, however short the specification is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "grammar/regular.h"

namespace quire::grammar {

// Counts down. Below zero, the front end stops and refuses the specification.
struct MemoryBudget {
  int64_t bytes = 0;

  bool exceeded() const { return bytes < 0; }
  // Takes the bytes of a new expression: a node with its reference counts, and two copies of its parts.
  bool charge(size_t parts) {
    constexpr int64_t kNodeBytes = 160;
    if (!exceeded()) bytes -= kNodeBytes + static_cast<int64_t>(2 * parts * sizeof(Regular));
    return !exceeded();
  }
};

}  // namespace quire::grammar
