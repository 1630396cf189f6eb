// Memory layout of integer matrices: quantized weights, scales and zero points, and the arithmetic on them
// that all op tables share. Plain data and free functions; thread-safe.
//
// A matrix is divided into panels of 32 rows of W (columns of the product); the last panel is padded. A panel
// is a sequence of groups along K. Each group consists of
//   scales       [32] float16; float32 for int8 weights with one scale per row
//   zero points  [32] uint8, padded to 64 bytes; only for formats with zero points
//   second-level scales
//                [group / second_level_group][32] int8, -15 to 15, padded to 64 bytes; only for formats with
//                second-level scales: (weight - zero point) times this scale is an 8-bit integer, to which
//                the first-level scale applies
//   weights      int8: for every 4 elements along K, [32][4] uint8, value + 128
//                int4: for every 8 elements along K, [32][4] bytes; byte i contains element i in its low
//                half and element 4 + i in its high half
// The last group may be short; its weights are padded to full steps of 4 or 8 elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/weight_format.h"

namespace quire {

struct IntLayout {
  static constexpr int64_t kPanel = 32;
  // Maximum number of elements along K whose products are summed as int32.
  static constexpr int32_t kMaxUnit = 65536;
  // Maximum number of second-level scales per group, and their maximum; the product with a weight is -120 to
  // 120.
  static constexpr int64_t kMaxSecondLevelScales = 8;
  static constexpr int32_t kMaxSecondLevelScale = 15;
  // Offset of the second-level scales in a group.
  static constexpr int64_t kSecondLevelAt = 64;

  int64_t k = 0;
  int64_t depth = 0;               // k rounded up to 8: int8 activations per row
  int64_t group = 0;               // elements along K that share a weight scale
  int64_t second_level_group = 0;  // elements that share a second-level scale; 0 = no second level
  int64_t unit = 0;              // elements along K per exact-accumulation block; groups are multiples of it
  int64_t num_units = 0;         // exact-accumulation blocks per row
  int64_t activation_group = 0;  // elements along K that share an activation scale
  int64_t step = 0;              // elements along K per line of weights: 4 or 8
  int64_t header_bytes = 0;      // header size of a group
  int64_t group_bytes = 0;       // size of a group other than the last
  int64_t panel_bytes = 0;
  bool row_scale = false;  // one float32 scale per row of int8 weights
  bool zero_points = false;

  IntLayout(const WeightFormat& format, int64_t row_size);

  int64_t num_panels(int64_t n) const { return (n + kPanel - 1) / kPanel; }
};

// Element i of row `row` of W as an integer, (value - zero point) * second-level scale, and its scale.
int32_t int_code(const IntLayout& at, const std::byte* weights, int64_t row, int64_t i);
float int_scale(const IntLayout& at, const std::byte* weights, int64_t row, int64_t i);
// out[0, k) = the row as float32: scale * integer, rounded.
void decode_int_row(const IntLayout& at, const std::byte* weights, int64_t row, float* out);

// Quantizes n activations that share a scale to [-127, 127], to nearest even. Returns the scale, max |x| /
// 127. If all activations are smaller than 1e-36, the scale and the values are 0. If one is not finite, the
// scale is NaN and the values are 0.
float quantize_activations(const float* x, int64_t n, int8_t* codes);

// Scales that are tried for a group of weights. For each candidate the least-squares scale of the rounded
// values is computed, and the candidate with the smallest squared error is used. A candidate is given as the
// integer that the largest weight is mapped to.
struct IntCandidates {
  const float* steps;  // integers that the largest weight (with zero points: the range) is mapped to
  int count;
  float low;  // range of value - zero point
  float high;
};
IntCandidates int_candidates(int32_t code_bits, bool zero_points);

// Quantizes one panel. `weights` [k][32] float32 is overwritten; dst receives the panel. If a weight is not
// finite, the scale of its group is NaN. Reference implementation of the kernels, with the same bits.
void quantize_panel(const IntLayout& at, float* weights, std::byte* dst);

}  // namespace quire
