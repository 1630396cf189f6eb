#include "sample/row_math.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "sample/wide.h"

namespace quire {
namespace {

using Quarter = float __attribute__((vector_size(kLanes / 4 * sizeof(float))));

constexpr float kLog2E = 1.44269504F;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

QUIRE_INLINE Floats load(const float* from) {
  Floats value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

QUIRE_INLINE void store(float* to, const Floats& value) {
  std::memcpy(to, &value, sizeof value);
}

QUIRE_INLINE Floats splat(float value) {
  return value - Floats{};
}

template <typename Lanes>
QUIRE_INLINE Lanes max(const Lanes& a, const Lanes& b) {
  return a > b ? a : b;
}

// 2^t for t <= 0. t = n + f with integer n and |f| <= 0.5; the polynomial for 2^f is the minimax polynomial
// of degree 5 in relative error (1.1e-7) with the value 1 at 0. The caller's product with scale * log2(e) is
// rounded, so the error grows by 1.4e-7 per nat of distance from the maximum and is smallest for the largest
// weights.
QUIRE_INLINE Floats exp2_lanes(const Floats& t) {
  constexpr float kSmallest = -125.99F;
  constexpr float kRounder =
      12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer, which is in the low bits
  const Floats shifted = t + kRounder;
  const Floats f = t - (shifted - kRounder);
  Floats p = f * 0.00132647273F + 0.00967151299F;
  p = p * f + 0.0555073358F;
  p = p * f + 0.240222424F;
  p = p * f + 0.693147004F;
  p = p * f + 1.0F;
  const Bits bits = reinterpret_cast<Bits>(p) + (reinterpret_cast<Bits>(shifted) << 23);
  return reinterpret_cast<Floats>(bits & reinterpret_cast<Bits>(t >= splat(kSmallest)));
}

// Loads the last, partial group of a row; lanes past the end are -inf and contribute 0.
QUIRE_INLINE Floats load_padded(const float* from, size_t count) {
  std::array<float, kLanes> group;
  for (size_t i = 0; i < kLanes; ++i) group[i] = i < count ? from[i] : -kInfinity;
  return load(group.data());
}

QUIRE_INLINE std::array<Quarter, 4> quarters(const Floats& v) {
  std::array<Quarter, 4> parts;
  std::memcpy(&parts, &v, sizeof v);
  return parts;
}

QUIRE_INLINE double sum_lanes(const Floats& v) {
  const auto q = quarters(v);
  const Quarter part = (q[0] + q[1]) + (q[2] + q[3]);
  return (double{part[0]} + double{part[1]}) + (double{part[2]} + double{part[3]});
}

QUIRE_INLINE float max_lanes(const Floats& v) {
  const auto q = quarters(v);
  const Quarter top = max(max(q[0], q[1]), max(q[2], q[3]));
  return std::max(std::max(top[0], top[1]), std::max(top[2], top[3]));
}

template <bool kStore>
QUIRE_INLINE double exp_pass(std::span<const float> values, float max, float scale, float* weights,
                             double* block_sum) {
  const Floats tops = splat(max);
  const Floats scales = splat(scale * kLog2E);
  double total = 0.0;
  for (size_t begin = 0, block = 0; begin < values.size(); begin += kRowBlock, ++block) {
    const size_t end = std::min(begin + kRowBlock, values.size());
    Floats sum{};
    size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      const Floats e = exp2_lanes((load(values.data() + i) - tops) * scales);
      sum += e;
      if constexpr (kStore) store(weights + i, e);
    }
    if (i < end) {
      const Floats e = exp2_lanes((load_padded(values.data() + i, end - i) - tops) * scales);
      sum += e;
      if constexpr (kStore) {
        for (size_t lane = 0; lane < end - i; ++lane) weights[i + lane] = e[lane];
      }
    }
    block_sum[block] = sum_lanes(sum);
    total += block_sum[block];
  }
  return total;
}

// Adds up term(x) over the row, where term maps 16 lanes to 16 lanes. Lanes past the end are -inf.
template <typename Term>
QUIRE_INLINE double add_up(std::span<const float> values, const Term& term) {
  double total = 0.0;
  for (size_t begin = 0; begin < values.size(); begin += kRowBlock) {
    const size_t end = std::min(begin + kRowBlock, values.size());
    Floats sum{};
    size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) sum += term(load(values.data() + i));
    if (i < end) sum += term(load_padded(values.data() + i, end - i));
    total += sum_lanes(sum);
  }
  return total;
}

// `value` in the lanes that are not -inf, otherwise 0.
QUIRE_INLINE Floats if_finite(const Floats& x, const Floats& value) {
  const Bits mask = reinterpret_cast<Bits>(x > splat(-kInfinity));
  return reinterpret_cast<Floats>(reinterpret_cast<Bits>(value) & mask);
}

}  // namespace

QUIRE_WIDE RowMax block_maxima(std::span<const float> values, float* block_max) {
  RowMax row{-kInfinity, true};
  Bits not_numbers{};
  for (size_t begin = 0, block = 0; begin < values.size(); begin += kRowBlock, ++block) {
    const size_t end = std::min(begin + kRowBlock, values.size());
    Floats top = splat(-kInfinity);
    size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      const Floats x = load(values.data() + i);
      top = max(x, top);
      not_numbers |= reinterpret_cast<Bits>(x != x);
    }
    if (i < end) {
      const Floats x = load_padded(values.data() + i, end - i);
      top = max(x, top);
      not_numbers |= reinterpret_cast<Bits>(x != x);
    }
    block_max[block] = max_lanes(top);
    row.max = std::max(row.max, block_max[block]);
  }
  row.is_numbers = !any(not_numbers) && row.max < kInfinity;
  return row;
}

QUIRE_WIDE double sum_exp(std::span<const float> values, float max, float scale, double* block_sum) {
  return exp_pass<false>(values, max, scale, nullptr, block_sum);
}

QUIRE_WIDE double weigh(std::span<const float> values, float max, float scale, float* weights,
                        double* block_sum) {
  return exp_pass<true>(values, max, scale, weights, block_sum);
}

QUIRE_WIDE RowWeights describe_weights(std::span<const float> values, float max, float scale) {
  constexpr float kLowest = -1000.0F;  // weights are 0 long before; the product with infinity is not a number
  const Floats tops = splat(max);
  const Floats scales = splat(scale);
  RowWeights row;
  double weighted = 0.0;
  for (size_t begin = 0; begin < values.size(); begin += kRowBlock) {
    const size_t end = std::min(begin + kRowBlock, values.size());
    Floats sum{};
    Floats weighted_sum{};
    for (size_t i = begin; i < end; i += kLanes) {
      const Floats value =
          i + kLanes <= end ? load(values.data() + i) : load_padded(values.data() + i, end - i);
      const Floats x = quire::max((value - tops) * scales, splat(kLowest));
      const Floats weight = exp2_lanes(x * splat(kLog2E));
      sum += weight;
      weighted_sum += x * weight;
    }
    row.sum += sum_lanes(sum);
    weighted += sum_lanes(weighted_sum);
  }
  row.mean = weighted / row.sum;
  row.entropy = std::max(0.0, std::log(row.sum) - row.mean);
  return row;
}

QUIRE_WIDE double deviation(std::span<const float> values, float max) {
  const Floats tops = splat(max);
  const Floats ones = splat(1.0F);
  const double count = add_up(
      values, [&](const Floats& value) __attribute__((always_inline)) { return if_finite(value, ones); });
  const double sum = add_up(
      values, [&](const Floats& value)
                  __attribute__((always_inline)) { return if_finite(value, value - tops); });
  const Floats mean = splat(static_cast<float>(sum / count));
  const double squares = add_up(
      values, [&](const Floats& value) __attribute__((always_inline)) {
        const Floats distance = (value - tops) - mean;
        return if_finite(value, distance * distance);
      });
  const double result = std::sqrt(squares / count);
  return std::isfinite(result) ? result : std::numeric_limits<double>::infinity();
}

QUIRE_WIDE size_t count_from(std::span<const float> values, float max, float scale, float bound) {
  size_t count = 0;
  for (const float value : values) count += (value - max) * scale >= bound ? 1 : 0;
  return count;
}

size_t find_max(std::span<const float> values, const float* block_max, float max) {
  const float* block = std::find(block_max, block_max + num_blocks(values.size()), max);
  const auto begin = values.begin() + (block - block_max) * static_cast<ptrdiff_t>(kRowBlock);
  return static_cast<size_t>(std::find(begin, values.end(), max) - values.begin());
}

size_t count_before(std::span<const float> values, float value, size_t index) {
  size_t count = 0;
  for (size_t i = 0; i < index; ++i) {
    count += values[i] >= value ? 1 : 0;
  }
  for (size_t i = index; i < values.size(); ++i) {
    count += values[i] > value ? 1 : 0;
  }
  return count;
}

QUIRE_WIDE size_t gather_from(std::span<const float> values, const int32_t* ids, const float* block_max,
                              float max, float scale, float bound, float* out_values, int32_t* out_ids) {
  const Floats tops = splat(max);
  const Floats scales = splat(scale);
  const Floats bounds = splat(bound);
  size_t count = 0;
  for (size_t begin = 0, block = 0; begin < values.size(); begin += kRowBlock, ++block) {
    if (!((block_max[block] - max) * scale >= bound)) {
      continue;
    }
    const size_t end = std::min(begin + kRowBlock, values.size());
    for (size_t group = begin; group < end; group += kLanes) {
      const size_t group_end = std::min(group + kLanes, end);
      if (group_end == group + kLanes) {
        const Floats x = load(values.data() + group);
        if (!any(reinterpret_cast<Bits>((x - tops) * scales >= bounds))) {
          continue;
        }
      }
      for (size_t i = group; i < group_end;
           ++i) {  // written unconditionally and counted if kept, to avoid branch mispredictions
        const float value = values[i];
        out_ids[count] = ids != nullptr ? ids[i] : static_cast<int32_t>(i);
        out_values[count] = value;
        count += (value - max) * scale >= bound ? 1 : 0;
      }
    }
  }
  return count;
}

}  // namespace quire
