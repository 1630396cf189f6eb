#include "sample/row_math.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

namespace quire {
namespace {

using F4 = float __attribute__((vector_size(16)));
using U4 = uint32_t __attribute__((vector_size(16)));
using L2 = uint64_t __attribute__((vector_size(16)));

constexpr size_t kLanes = 16;  // four vectors in flight hide the latency of the arithmetic
constexpr float kLog2E = 1.44269504F;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

F4 load(const float* from) {
  F4 value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

void store(float* to, F4 value) {
  std::memcpy(to, &value, sizeof value);
}

F4 splat(float value) {
  return F4{value, value, value, value};
}

F4 max4(F4 a, F4 b) {
  return a > b ? a : b;
}

bool any(U4 mask) {
  const L2 halves = reinterpret_cast<L2>(mask);
  return (halves[0] | halves[1]) != 0;
}

// 2^t for t <= 0. t = n + f with n whole and |f| <= 0.5; the polynomial for 2^f is the best of degree 5 in
// relative error (1.1e-7) among those that are exactly 1 at 0. The caller's product with scale * log2(e) is
// rounded, so the error grows with the distance from the maximum, by 1.4e-7 for each nat: least where the
// weight is.
F4 exp2_4(F4 t) {
  constexpr float kSmallest = -125.99F;
  constexpr float kRounder =
      12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer, which stands in the low bits
  const F4 shifted = t + kRounder;
  const F4 f = t - (shifted - kRounder);
  F4 p = f * 0.00132647273F + 0.00967151299F;
  p = p * f + 0.0555073358F;
  p = p * f + 0.240222424F;
  p = p * f + 0.693147004F;
  p = p * f + 1.0F;
  const U4 bits = reinterpret_cast<U4>(p) + (reinterpret_cast<U4>(shifted) << 23);
  return reinterpret_cast<F4>(bits & reinterpret_cast<U4>(t >= splat(kSmallest)));
}

// The last, short group of a row as a full one: the lanes behind the end are -inf and add nothing.
std::array<float, kLanes> padded(std::span<const float> values) {
  std::array<float, kLanes> group;
  group.fill(-kInfinity);
  std::copy(values.begin(), values.end(), group.begin());
  return group;
}

struct Lanes {
  F4 a, b, c, d;
};

inline Lanes load_group(const float* from) {
  return {load(from), load(from + 4), load(from + 8), load(from + 12)};
}

inline Lanes exp_group(const float* from, F4 max, F4 scale) {
  const Lanes x = load_group(from);
  return {exp2_4((x.a - max) * scale), exp2_4((x.b - max) * scale), exp2_4((x.c - max) * scale),
          exp2_4((x.d - max) * scale)};
}

inline void add_group(Lanes& sum, const Lanes& e) {
  sum.a += e.a;
  sum.b += e.b;
  sum.c += e.c;
  sum.d += e.d;
}

inline void store_group(float* to, const Lanes& e) {
  store(to, e.a);
  store(to + 4, e.b);
  store(to + 8, e.c);
  store(to + 12, e.d);
}

template <bool kStore>
double exp_pass(std::span<const float> values, float max, float scale, float* weights, double* block_sum) {
  const F4 max_lanes = splat(max);
  const F4 scale_lanes = splat(scale * kLog2E);
  double total = 0.0;
  for (size_t begin = 0, block = 0; begin < values.size(); begin += kRowBlock, ++block) {
    const size_t end = std::min(begin + kRowBlock, values.size());
    Lanes sum{};
    size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      const Lanes e = exp_group(values.data() + i, max_lanes, scale_lanes);
      add_group(sum, e);
      if constexpr (kStore) {
        store_group(weights + i, e);
      }
    }
    if (i < end) {
      std::array<float, kLanes> group = padded(values.subspan(i, end - i));
      const Lanes e = exp_group(group.data(), max_lanes, scale_lanes);
      add_group(sum, e);
      if constexpr (kStore) {
        store_group(group.data(), e);
        std::copy_n(group.begin(), end - i, weights + i);
      }
    }
    const F4 lanes = (sum.a + sum.b) + (sum.c + sum.d);
    block_sum[block] = (double{lanes[0]} + double{lanes[1]}) + (double{lanes[2]} + double{lanes[3]});
    total += block_sum[block];
  }
  return total;
}

}  // namespace

RowMax block_maxima(std::span<const float> values, float* block_max) {
  RowMax row{-kInfinity, true};
  U4 not_numbers{};
  for (size_t begin = 0, block = 0; begin < values.size(); begin += kRowBlock, ++block) {
    const size_t end = std::min(begin + kRowBlock, values.size());
    Lanes top{splat(-kInfinity), splat(-kInfinity), splat(-kInfinity), splat(-kInfinity)};
    const auto take = [&](const float* from) {
      const Lanes x = load_group(from);
      top = {max4(x.a, top.a), max4(x.b, top.b), max4(x.c, top.c), max4(x.d, top.d)};
      not_numbers |= reinterpret_cast<U4>(x.a != x.a) | reinterpret_cast<U4>(x.b != x.b);
      not_numbers |= reinterpret_cast<U4>(x.c != x.c) | reinterpret_cast<U4>(x.d != x.d);
    };
    size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      take(values.data() + i);
    }
    if (i < end) {
      take(padded(values.subspan(i, end - i)).data());
    }
    const F4 lanes = max4(max4(top.a, top.b), max4(top.c, top.d));
    block_max[block] = std::max(std::max(lanes[0], lanes[1]), std::max(lanes[2], lanes[3]));
    row.max = std::max(row.max, block_max[block]);
  }
  row.is_numbers = !any(not_numbers) && row.max < kInfinity;
  return row;
}

double sum_exp(std::span<const float> values, float max, float scale, double* block_sum) {
  return exp_pass<false>(values, max, scale, nullptr, block_sum);
}

double weigh(std::span<const float> values, float max, float scale, float* weights, double* block_sum) {
  return exp_pass<true>(values, max, scale, weights, block_sum);
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

size_t gather_from(std::span<const float> values, const int32_t* ids, const float* block_max, float max,
                   float scale, float bound, float* out_values, int32_t* out_ids) {
  const F4 max_lanes = splat(max);
  const F4 scale_lanes = splat(scale);
  const F4 bound_lanes = splat(bound);
  const auto reaches = [&](F4 x) {
    return reinterpret_cast<U4>((x - max_lanes) * scale_lanes >= bound_lanes);
  };
  size_t count = 0;
  for (size_t begin = 0, block = 0; begin < values.size(); begin += kRowBlock, ++block) {
    if (!((block_max[block] - max) * scale >= bound)) {
      continue;
    }
    const size_t end = std::min(begin + kRowBlock, values.size());
    for (size_t group = begin; group < end; group += kLanes) {
      const size_t group_end = std::min(group + kLanes, end);
      if (group_end == group + kLanes) {
        const Lanes x = load_group(values.data() + group);
        if (!any((reaches(x.a) | reaches(x.b)) | (reaches(x.c) | reaches(x.d)))) {
          continue;
        }
      }
      for (size_t i = group; i < group_end;
           ++i) {  // written always, counted where it belongs: no branch to miss
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
