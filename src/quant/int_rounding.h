// Rounding of weights to integers for files that other tools read, too: the scale and zero point of each
// group, and the quantized values. int_layout.h is the counterpart for weights that are quantized at load.
// Plain data and free functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dtype.h"

namespace quire {

class ThreadPool;

struct IntRounding {
  int32_t bits = 4;            // 2 to 8: values are 0 to 2^bits - 1
  bool zero_points = false;    // each group has an integer zero point; otherwise it is 2^(bits - 1)
  DType scales = DType::kF16;  // storage type of scales; they are rounded to it before values are chosen
  bool largest_fits = false;   // the scale fits the largest weight: no clipping, no search

  int32_t max_code() const { return (1 << bits) - 1; }
};

// weight = scale * (code - zero_point), in float32. The scale is not negative.
struct IntGroup {
  float scale = 0.0F;
  int32_t zero_point = 0;

  float value(int32_t code) const { return scale * static_cast<float>(code - zero_point); }
};

// Chooses the group for weights w[0, count). Tries several step widths, each with its least-squares scale,
// and returns the one with the smallest sum of importance[i] * (error of w[i])^2. importance: [count], not
// negative, or empty for equal weights. All weights must be finite.
IntGroup choose_group(const IntRounding& rounding, std::span<const float> w,
                      std::span<const float> importance = {});
// The scale rounded to the type; values too large for float16 become its maximum.
float stored_scale(DType type, float scale);
// The nearest code; ties go to even.
int32_t code_of(const IntRounding& rounding, const IntGroup& group, float w);

// A matrix [n, k] of integers with groups.
struct IntMatrix {
  IntRounding rounding;
  int64_t n = 0;
  int64_t k = 0;
  int64_t group_size = 0;         // columns that share a scale; the last group may be shorter
  std::vector<uint8_t> codes;     // [n, k]
  std::vector<IntGroup> groups;   // [n, num_groups()]
  std::vector<int32_t> group_of;  // [k]: group of each column (act-order); empty: column / group_size

  // group_size 0 = one group per row
  IntMatrix(const IntRounding& how, int64_t rows, int64_t columns, int64_t group);
  int64_t num_groups() const { return (k + group_size - 1) / group_size; }
  int64_t group_at(int64_t column) const {
    return group_of.empty() ? column / group_size : group_of[static_cast<size_t>(column)];
  }
  IntGroup& group(int64_t row, int64_t g) { return groups[static_cast<size_t>(row * num_groups() + g)]; }
  const IntGroup& group(int64_t row, int64_t g) const {
    return groups[static_cast<size_t>(row * num_groups() + g)];
  }
  uint8_t& code(int64_t row, int64_t column) { return codes[static_cast<size_t>(row * k + column)]; }
  uint8_t code(int64_t row, int64_t column) const { return codes[static_cast<size_t>(row * k + column)]; }
  // out [k]: the weights of the row
  void decode_row(int64_t row, std::span<float> out) const;
};

// Rounds each group independently to nearest. w [n, k]; importance [k] or empty.
IntMatrix round_to_nearest(ThreadPool& pool, const IntRounding& rounding, std::span<const float> w, int64_t n,
                           int64_t k, int64_t group_size, std::span<const float> importance = {});

}  // namespace quire
