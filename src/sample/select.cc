#include "sample/select.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace quire {
namespace {

constexpr float kBucketsPerNat = 64.0F;
constexpr ptrdiff_t kSortBelow = 48;

bool ranks_before(const Ranked& a, const Ranked& b) {
  return more_likely(a.value, a.id, b.value, b.id);
}

int bucket_of(const Row& row, float value) {
  const float distance = (row.max - value) * row.scale * kBucketsPerNat;
  return static_cast<int>(std::min(distance, static_cast<float>(kNumBuckets - 1)));
}

// Returns the last entry of the smallest set of most probable entries in ranked[0, count) whose masses reach
// `target`. Quickselect: only the half that contains the end is processed further.
Ranked find_cut(std::vector<Ranked>& ranked, size_t count, double target) {
  auto begin = ranked.begin();
  auto end = begin + static_cast<ptrdiff_t>(count);
  double reached = 0.0;
  while (end - begin > kSortBelow) {
    const auto middle = begin + (end - begin) / 2;
    std::nth_element(begin, middle, end, ranks_before);
    double upper = 0.0;
    for (auto it = begin; it != middle; ++it) {
      upper += double{it->mass};
    }
    if (reached + upper >= target) {
      end = middle;
    } else {
      reached += upper;
      begin = middle;
    }
  }
  std::sort(begin, end, ranks_before);
  for (auto it = begin; it != end; ++it) {
    reached += double{it->mass};
    if (reached >= target) {
      return *it;
    }
  }
  return *(end - 1);  // because of rounding the sum is below the target; keep all entries
}

void list_from(Row& row, float max, float scale, float bound, SamplerBuffers& buffers) {
  const size_t count = gather_from(row.values, row.ids, buffers.block_max.data(), max, scale, bound,
                                   buffers.values.data(), buffers.ids.data());
  take_list(row, count, buffers);
}

// Keeps the smallest set of most probable entries whose masses reach `target`. The row must be a list. mass:
// null = 1 per entry. A histogram of the distance from the maximum finds the narrow band that contains the
// threshold; only this band is searched.
void keep_until(Row& row, const float* mass, double target, SamplerBuffers& buffers) {
  std::fill(buffers.bucket_mass.begin(), buffers.bucket_mass.end(), 0.0);
  for (size_t i = 0; i < row.values.size(); ++i) {
    buffers.bucket_mass[static_cast<size_t>(bucket_of(row, row.values[i]))] +=
        mass != nullptr ? double{mass[i]} : 1.0;
  }
  double reached = 0.0;
  int band = 0;
  while (band < kNumBuckets && reached + buffers.bucket_mass[static_cast<size_t>(band)] < target) {
    reached += buffers.bucket_mass[static_cast<size_t>(band)];
    ++band;
  }
  if (band == kNumBuckets) {
    return;  // because of rounding the sum is below the target; keep all entries
  }
  size_t in_band = 0;
  for (size_t i = 0; i < row.values.size(); ++i) {
    buffers.ranked[in_band] = {row.values[i], row.ids[i], mass != nullptr ? mass[i] : 1.0F};
    in_band += bucket_of(row, row.values[i]) == band ? 1 : 0;
  }
  const Ranked cut = find_cut(buffers.ranked, in_band, target - reached);
  size_t count = 0;
  for (size_t i = 0; i < row.values.size(); ++i) {
    const float value = row.values[i];
    const TokenId id = row.ids[i];
    buffers.values[count] = value;
    buffers.ids[count] = id;
    count += more_likely(cut.value, cut.id, value, id) ? 0 : 1;
  }
  take_list(row, count, buffers);
}

}  // namespace

SamplerBuffers::SamplerBuffers(int32_t vocab_size)
    : block_max(num_blocks(static_cast<size_t>(vocab_size))),
      block_sum(block_max.size()),
      values(static_cast<size_t>(vocab_size)),
      ids(values.size()),
      weights(values.size()),
      ranked(values.size()),
      bucket_mass(kNumBuckets) {}

void take_list(Row& row, size_t count, SamplerBuffers& buffers) {
  row.values = std::span<const float>(buffers.values).first(count);
  row.ids = buffers.ids.data();
  row.max = block_maxima(row.values, buffers.block_max.data()).max;
}

void keep_min_p(Row& row, float min_p, SamplerBuffers& buffers) {
  list_from(row, row.max, row.scale, std::log(min_p), buffers);
}

void keep_top_k(Row& row, int64_t k, SamplerBuffers& buffers) {
  if (k >= static_cast<int64_t>(row.values.size())) {
    return;
  }
  // The k-th largest block maximum has k entries at or above it, so nothing below it can be kept.
  float bound = -std::numeric_limits<float>::infinity();
  const size_t blocks = num_blocks(row.values.size());
  if (k <= static_cast<int64_t>(blocks)) {
    const auto begin = buffers.weights.begin();
    std::copy_n(buffers.block_max.begin(), blocks, begin);
    std::nth_element(begin, begin + (k - 1), begin + static_cast<ptrdiff_t>(blocks), std::greater<>());
    bound = buffers.weights[static_cast<size_t>(k - 1)];
  }
  list_from(row, 0.0F, 1.0F, bound, buffers);
  if (k < static_cast<int64_t>(row.values.size())) {
    keep_until(row, nullptr, static_cast<double>(k), buffers);
  }
}

void keep_top_p(Row& row, float top_p, SamplerBuffers& buffers) {
  const double total = sum_exp(row.values, row.max, row.scale, buffers.block_sum.data());
  // The entries below `light` have less than (1 - top_p) of the total weight together, so top_p is reached
  // without them. The bound is slightly lower because of rounding in the sums.
  const double light = (1.0 - double{top_p}) * total / static_cast<double>(row.values.size());
  constexpr double kMargin = 1e-3;
  list_from(row, row.max, row.scale, static_cast<float>(std::log(light) - kMargin), buffers);
  weigh(row.values, row.max, row.scale, buffers.weights.data(), buffers.block_sum.data());
  keep_until(row, buffers.weights.data(), double{top_p} * total, buffers);
}

}  // namespace quire
