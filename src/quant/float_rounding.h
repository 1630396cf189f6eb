// Rounding of weights to small floats for files: 8-bit floats with scales, and 4-bit table codes in blocks,
// as in bitsandbytes. Free functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quire {

class ThreadPool;

// A matrix [n, k] of fp8 e4m3 codes. Blocks of rows and columns share a scale: weight = scale * code.
struct Float8Matrix {
  int64_t block_rows = 1;
  int64_t block_columns = 0;
  std::vector<uint8_t> codes;  // [n, k]
  std::vector<float> scales;   // [n / block_rows, k / block_columns], both rounded up; max |w| / 448
};
Float8Matrix round_to_e4m3(ThreadPool& pool, std::span<const float> w, int64_t n, int64_t k,
                           int64_t block_rows, int64_t block_columns);

// Values in blocks; rows are concatenated. value = scales[i / block] * table[code].
struct TableBlocks {
  std::vector<uint8_t> codes;  // one per value
  std::vector<float> scales;   // max |w| per block
};
// table: 16 entries in [-1, 1] in any order. Values are rounded to the nearest entry; ties go to the smaller
// one. The bits are those of bitsandbytes 0.50, "default" kernel of quantize_4bit.
TableBlocks round_to_table(ThreadPool& pool, std::span<const float> w, std::span<const float> table,
                           int64_t block);

// Block scales that are quantized, too ("double quantization", QLoRA, arXiv 2305.14314, section 3): their
// mean is subtracted, and the rest is a code of dynamic_values() in blocks of 256.
struct NestedScales {
  std::vector<uint8_t> codes;
  std::vector<float> scales;  // maximum of each block of 256
  float offset = 0.0F;
};
NestedScales round_scales(std::span<const float> scales);
inline constexpr int64_t kNestedBlock = 256;

// The values of 8-bit dynamic tree codes (Dettmers, "8-bit approximations for parallelism in deep learning",
// arXiv 1511.04561, section 2.2; signed, up to seven exponent bits), ascending. [256]
std::span<const float> dynamic_values();

}  // namespace quire
