// Weights as whole numbers for files that other tools read too: which scale and zero a group gets, and its
// codes. int_layout.h is the same for what is rounded as it is loaded. Plain data and free functions; any
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/dtype.h"

namespace quire {

class ThreadPool;

struct IntRounding {
  int32_t bits = 4;            // 2 to 8: codes are 0 .. 2^bits - 1
  bool zeros = false;          // each group has a whole zero of its own; else 2^(bits - 1) is zero
  DType scales = DType::kF16;  // what scales are stored as; they are rounded to it before codes are chosen
  bool largest_fits = false;   // the scale is that of the largest weight: nothing is cut, nothing searched

  int32_t most() const { return (1 << bits) - 1; }
};

// weight = scale * (code - zero), in float32. The scale is not negative.
struct IntGroup {
  float scale = 0.0F;
  int32_t zero = 0;

  float value(int32_t code) const { return scale * static_cast<float>(code - zero); }
};

// The group of weights w[i], i in [0, count). Of some widths of the step, each with the factor that is best
// for its codes (least squares), the one with the smallest sum of importance[i] * (error of w[i])^2.
// importance: [count], not negative, or empty: all count 1. Weights must be finite.
IntGroup choose_group(const IntRounding& rounding, std::span<const float> w,
                      std::span<const float> importance = {});
// A scale as numbers of that type hold it; what is too large becomes float16's largest.
float stored_scale(DType type, float scale);
// The nearest code, halves to even.
int32_t code_of(const IntRounding& rounding, const IntGroup& group, float w);

// A matrix [n, k] of such codes.
struct IntMatrix {
  IntRounding rounding;
  int64_t n = 0;
  int64_t k = 0;
  int64_t group_size = 0;         // columns that share a scale; the last group may be short
  std::vector<uint8_t> codes;     // [n, k]
  std::vector<IntGroup> groups;   // [n, num_groups()]
  std::vector<int32_t> group_of;  // [k] the group of each column (act-order); empty: column / group_size

  // group_size 0: one group a row.
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
  // out [k]: the row's weights.
  void decode_row(int64_t row, std::span<float> out) const;
};

// Each group by itself, to nearest. w [n, k]; importance [k] or empty.
IntMatrix round_to_nearest(ThreadPool& pool, const IntRounding& rounding, std::span<const float> w, int64_t n,
                           int64_t k, int64_t group_size, std::span<const float> importance = {});

}  // namespace quire
