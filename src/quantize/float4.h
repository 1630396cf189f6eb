// Weights as 4-bit floats (e2m1) with a scale for each group of columns, as NVFP4 and MXFP4 have them. Free
// functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace quire {

// weight = code's number * scale's number / divisor.
struct Float4Matrix {
  std::vector<uint8_t> codes;   // [n, k]
  std::vector<uint8_t> scales;  // [n, k / group]: e4m3 or e8m0
  float divisor = 1.0F;         // of the whole matrix
};

// Scales e4m3 for groups of 16, the largest of them at the top of what e4m3 can say.
Float4Matrix round_to_nvfp4(ThreadPool& pool, std::span<const float> w, int64_t n, int64_t k);
// Scales that are powers of two for groups of 32.
Float4Matrix round_to_mxfp4(ThreadPool& pool, std::span<const float> w, int64_t n, int64_t k);

inline constexpr int64_t kNvFp4Group = 16;
inline constexpr int64_t kMxFp4Group = 32;

}  // namespace quire
