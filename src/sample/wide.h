// Vectors of 16 float lanes for loops over a row, and the attribute that also compiles such a loop for wider
// registers. Included by src/sample only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

// Function multiversioning: with support from compiler and C library, the loops are also compiled for wider
// registers. The results are identical.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__gnu_linux__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define QUIRE_WIDE __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define QUIRE_WIDE
#endif
#define QUIRE_INLINE inline __attribute__((always_inline))

namespace quire {

inline constexpr size_t kLanes = 16;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Bits = uint32_t __attribute__((vector_size(kLanes * sizeof(uint32_t))));

QUIRE_INLINE bool any(const Bits& mask) {
  uint32_t all = 0;
  for (size_t i = 0; i < kLanes; ++i) all |= mask[i];
  return all != 0;
}

}  // namespace quire
