// Where codes, scales and zero points of a matrix of whole numbers lie, and the arithmetic on them that all
// op tables share. Plain data and free functions; any thread.
//
// A matrix is cut into panels of 32 rows of W (columns of the product), the last one padded. A panel is its
// groups of k one behind the other, each
//   scales   [32] float16; float32 where one scale is for the whole row of 8-bit codes
//   zeros    [32] uint8, padded to 64 bytes; only with zero points
//   factors  [group / factor_group][32] int8, -15 .. 15, padded to 64 bytes; only where formats have them: a
//   code
//            less its zero times the factor is a whole number of 8 bits, and the scale is for those
//   codes    8 bits: for each 4 k's [32][4] uint8, code + 128
//            4 bits: for each 8 k's [32][4] bytes: byte i has the code of k i in its low half, of k 4 + i in
//            its high half
// The last group may be short; its codes are padded to whole steps of 4 or 8 k's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/weight_format.h"

namespace quire {

struct IntLayout {
  static constexpr int64_t kPanel = 32;
  // The longest run of k whose products are summed as int32.
  static constexpr int32_t kMaxUnit = 65536;
  // Factors of a group at most, and the largest one: its product with a code is -120 .. 120.
  static constexpr int64_t kMaxFactors = 8;
  static constexpr int32_t kLargestFactor = 15;
  // Where factors begin in a group.
  static constexpr int64_t kFactorsAt = 64;

  int64_t k = 0;
  int64_t depth = 0;             // k rounded up to 8: int8 activations of a row
  int64_t group = 0;             // k's that share a scale of the weights
  int64_t factor_group = 0;      // k's of a group that share a factor; 0: none
  int64_t unit = 0;              // k's whose products are summed exactly; groups are whole units
  int64_t num_units = 0;         // in a row
  int64_t activation_group = 0;  // k's that share a scale of the activations
  int64_t step = 0;              // k's that a line of codes holds for each column: 4 or 8
  int64_t header_bytes = 0;      // of a group, before its codes
  int64_t group_bytes = 0;       // of a group that is not the last
  int64_t panel_bytes = 0;
  bool row_scale = false;  // one float32 scale for a row of 8-bit codes
  bool zero_points = false;

  IntLayout(const WeightFormat& format, int64_t row_size);

  int64_t num_panels(int64_t n) const { return (n + kPanel - 1) / kPanel; }
};

// Element i of row `row` of W: code less zero, times its factor, and the scale that it is multiplied with.
int32_t int_code(const IntLayout& at, const std::byte* weights, int64_t row, int64_t i);
float int_scale(const IntLayout& at, const std::byte* weights, int64_t row, int64_t i);
// out[0, k) = the row as float32: scale * code, rounded.
void decode_int_row(const IntLayout& at, const std::byte* weights, int64_t row, float* out);

// n activations that share a scale: codes in [-127, 127], to nearest even. Returns the scale, max |x| / 127:
// 0 with codes of 0 where all are smaller than 1e-36, NaN with codes of 0 where one is not finite.
float quantize_activations(const float* x, int64_t n, int8_t* codes);

// Weights of a group are rounded with the best of some scales: for each candidate the codes' own best factor
// (least squares) is taken, and the candidate with the smallest squared error wins. Candidates are the steps
// between codes, as a part of the largest weight.
struct IntCandidates {
  const float* steps;  // codes that the largest weight (with zero points: the whole range) is mapped to
  int count;
  float low;  // codes less zero
  float high;
};
IntCandidates int_candidates(int32_t code_bits, bool zero_points);

// One panel: `weights` [k][32] float32 is overwritten, dst gets the panel's bytes. Where a weight of a group
// is not finite its scale is NaN. The plain form of what the kernels do with the same bits.
void quantize_panel(const IntLayout& at, float* weights, std::byte* dst);

}  // namespace quire
