// Rounding of weights to 4-bit floats (e2m1) with one scale per group of columns, as in NVFP4 and MXFP4. Free
// functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace quire {

// weight = value of the code * value of the scale / divisor.
struct Float4Matrix {
  std::vector<uint8_t> codes;   // [n, k]
  std::vector<uint8_t> scales;  // [n, k / group]: e4m3 or e8m0
  float divisor = 1.0F;         // global scale of the matrix
};

// NVFP4: e4m3 scales per group of 16. The divisor is chosen so that the largest scale is the maximum of e4m3.
Float4Matrix round_to_nvfp4(ThreadPool& pool, std::span<const float> w, int64_t n, int64_t k);
// MXFP4: power-of-two scales per group of 32.
Float4Matrix round_to_mxfp4(ThreadPool& pool, std::span<const float> w, int64_t n, int64_t k);

inline constexpr int64_t kNvFp4Group = 16;
inline constexpr int64_t kMxFp4Group = 32;

}  // namespace quire
