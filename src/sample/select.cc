#include "sample/select.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

namespace quire {
namespace {

constexpr float kBucketsPerNat = 64.0F;
constexpr ptrdiff_t kSortBelow = 48;

// Which entries come first: the largest, or those whose scaled distance from the maximum is nearest to
// `center`.
struct Order {
  bool typical = false;
  float center = 0.0F;

  // Larger ranks come first.
  float rank(const Row& row, float value) const {
    return typical ? -std::abs((value - row.max) * row.scale - center) : value;
  }
  // From the first possible rank, in nats.
  float distance(const Row& row, float value) const {
    return typical ? std::abs((value - row.max) * row.scale - center) : (row.max - value) * row.scale;
  }
};

// The least mass and number of a set of first entries.
struct Target {
  double mass = 0.0;
  size_t count = 0;

  bool reached(double set_mass, size_t set_count) const { return set_mass >= mass && set_count >= count; }
};

bool ranks_before(const Ranked& a, const Ranked& b) {
  return more_likely(a.value, a.id, b.value, b.id);
}

// buckets [row.values.size()]: the distance of each entry from the first possible rank, in buckets.
void find_buckets(const Row& row, const Order& order, uint16_t* buckets) {
  constexpr auto kLast = static_cast<float>(kNumBuckets - 1);
  for (size_t i = 0; i < row.values.size(); ++i) {
    const float distance = order.distance(row, row.values[i]) * kBucketsPerNat;
    buckets[i] = static_cast<uint16_t>(static_cast<int32_t>(distance < kLast ? distance : kLast));
  }
}

// Returns the last entry of the smallest set of first entries in ranked[0, count) that reaches the target.
// Quickselect: only the half that contains the end is processed further.
Ranked find_cut(std::vector<Ranked>& ranked, size_t count, const Target& target) {
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
    if (target.reached(reached + upper, static_cast<size_t>(middle - ranked.begin()))) {
      end = middle;
    } else {
      reached += upper;
      begin = middle;
    }
  }
  std::sort(begin, end, ranks_before);
  for (auto it = begin; it != end; ++it) {
    reached += double{it->mass};
    if (target.reached(reached, static_cast<size_t>(it - ranked.begin()) + 1)) {
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

// Keeps the smallest set of first entries that reaches the target. The row must be a list. mass: null = 1 per
// entry. A histogram of the distance from the first rank finds the narrow band that contains the threshold;
// only this band is searched.
void keep_until(Row& row, const Order& order, const float* mass, const Target& target,
                SamplerBuffers& buffers) {
  const size_t size = row.values.size();
  std::fill(buffers.bucket_mass.begin(), buffers.bucket_mass.end(), 0.0);
  std::fill(buffers.bucket_size.begin(), buffers.bucket_size.end(), 0U);
  uint16_t* const buckets = buffers.buckets.data();
  find_buckets(row, order, buckets);
  for (size_t i = 0; i < size; ++i) {
    buffers.bucket_mass[buckets[i]] += mass != nullptr ? double{mass[i]} : 1.0;
    ++buffers.bucket_size[buckets[i]];
  }
  double reached = 0.0;
  size_t num_reached = 0;
  size_t band = 0;
  for (; band < kNumBuckets; ++band) {
    const double with_band = reached + buffers.bucket_mass[band];
    if (target.reached(with_band, num_reached + buffers.bucket_size[band])) break;
    reached = with_band;
    num_reached += buffers.bucket_size[band];
  }
  if (band == kNumBuckets) {
    return;  // because of rounding the sum is below the target; keep all entries
  }
  size_t in_band = 0;
  for (size_t i = 0; i < size; ++i) {
    if (buckets[i] != band) continue;
    buffers.ranked[in_band++] = {order.rank(row, row.values[i]), row.ids[i],
                                 mass != nullptr ? mass[i] : 1.0F};
  }
  const Target rest{target.mass - reached, target.count > num_reached ? target.count - num_reached : 0};
  const Ranked cut = find_cut(buffers.ranked, in_band, rest);
  size_t count = 0;
  for (size_t i = 0; i < size; ++i) {
    const float value = row.values[i];
    const TokenId id = row.ids[i];
    const bool kept = buckets[i] < band ||
                      (buckets[i] == band && !more_likely(cut.value, cut.id, order.rank(row, value), id));
    buffers.values[count] = value;
    buffers.ids[count] = id;
    count += kept ? 1 : 0;
  }
  take_list(row, count, buffers);
}

// Values of parameters may be as large as those of a float.
float to_float(double bound) {
  return static_cast<float>(std::max(bound, double{std::numeric_limits<float>::lowest()}));
}

// A value that at least k entries reach; -inf unless it is found quickly. Overwrites buffers.weights.
float kth_bound(const Row& row, int64_t k, SamplerBuffers& buffers) {
  // The k-th largest block maximum has k entries at or above it.
  const size_t blocks = num_blocks(row.values.size());
  if (k > static_cast<int64_t>(blocks)) return -std::numeric_limits<float>::infinity();
  const auto begin = buffers.weights.begin();
  std::copy_n(buffers.block_max.begin(), blocks, begin);
  std::nth_element(begin, begin + (k - 1), begin + static_cast<ptrdiff_t>(blocks), std::greater<>());
  return buffers.weights[static_cast<size_t>(k - 1)];
}

// Lists the entries with a weight of at least exp(bound), and at least the min_keep largest.
void list_weights_from(Row& row, double bound, int64_t min_keep, SamplerBuffers& buffers) {
  // Slightly lower because of rounding in the sums that bounds come from.
  constexpr double kMargin = 1e-3;
  auto lowest = static_cast<float>(bound - kMargin);
  if (min_keep > 1) {
    const float kth = (kth_bound(row, min_keep, buffers) - row.max) * row.scale;
    lowest = std::min(lowest, kth - std::abs(kth) * 1e-5F);
  }
  list_from(row, row.max, row.scale, lowest, buffers);
}

// Lists the entries that do not rank before (value, id).
void drop_before(Row& row, float value, TokenId id, SamplerBuffers& buffers) {
  size_t count = 0;
  for (size_t begin = 0; begin < row.values.size(); begin += kRowBlock) {
    const size_t end = std::min(begin + kRowBlock, row.values.size());
    // Most blocks are copied as they are. To the left of where they were, if the row is a list already.
    if (buffers.block_max[begin / kRowBlock] < value) {
      std::memmove(&buffers.values[count], &row.values[begin], (end - begin) * sizeof(float));
      for (size_t i = begin; i < end; ++i) buffers.ids[count + (i - begin)] = row.id(i);
      count += end - begin;
      continue;
    }
    for (size_t i = begin; i < end; ++i) {
      const float other = row.values[i];
      const TokenId other_id = row.id(i);
      buffers.values[count] = other;
      buffers.ids[count] = other_id;
      count += more_likely(other, other_id, value, id) ? 0 : 1;
    }
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
      buckets(values.size()),
      bucket_mass(kNumBuckets),
      bucket_size(kNumBuckets) {}

void take_list(Row& row, size_t count, SamplerBuffers& buffers) {
  row.values = std::span<const float>(buffers.values).first(count);
  row.ids = buffers.ids.data();
  row.max = block_maxima(row.values, buffers.block_max.data()).max;
}

void keep_min_p(Row& row, float min_p, int64_t min_keep, SamplerBuffers& buffers) {
  const float bound = std::log(min_p);
  if (min_keep > 1 && static_cast<int64_t>(count_from(row.values, row.max, row.scale, bound)) < min_keep) {
    return keep_top_k(row, min_keep, buffers);
  }
  list_from(row, row.max, row.scale, bound, buffers);
}

void keep_top_k(Row& row, int64_t k, SamplerBuffers& buffers) {
  if (k >= static_cast<int64_t>(row.values.size())) {
    return;
  }
  list_from(row, 0.0F, 1.0F, kth_bound(row, k, buffers), buffers);
  if (k < static_cast<int64_t>(row.values.size())) {
    keep_until(row, {}, nullptr, {.mass = 0.0, .count = static_cast<size_t>(k)}, buffers);
  }
}

void keep_top_p(Row& row, float top_p, int64_t min_keep, SamplerBuffers& buffers) {
  const double total = sum_exp(row.values, row.max, row.scale, buffers.block_sum.data());
  // The entries below `light` have less than (1 - top_p) of the total weight together, so top_p is reached
  // without them.
  const double light = (1.0 - double{top_p}) * total / static_cast<double>(row.values.size());
  list_weights_from(row, std::log(light), min_keep, buffers);
  weigh(row.values, row.max, row.scale, buffers.weights.data(), buffers.block_sum.data());
  const Target target{double{top_p} * total, static_cast<size_t>(std::max<int64_t>(0, min_keep))};
  keep_until(row, {}, buffers.weights.data(), target, buffers);
}

void keep_typical(Row& row, float typical_p, int64_t min_keep, SamplerBuffers& buffers) {
  const RowWeights weights = describe_weights(row.values, row.max, row.scale);
  // With x = log(weight), -log(probability) - entropy is mean - x.
  const Order order{.typical = true, .center = static_cast<float>(weights.mean)};
  // As for top_p, of the entries that are farther from the mean than the maximum is.
  const double light = (1.0 - double{typical_p}) * weights.sum / static_cast<double>(row.values.size());
  list_weights_from(row, std::min(std::log(light), 2.0 * weights.mean), min_keep, buffers);
  weigh(row.values, row.max, row.scale, buffers.weights.data(), buffers.block_sum.data());
  const Target target{double{typical_p} * weights.sum, static_cast<size_t>(std::max<int64_t>(0, min_keep))};
  keep_until(row, order, buffers.weights.data(), target, buffers);
}

void keep_top_n_sigma(Row& row, float n, SamplerBuffers& buffers) {
  const double bound = -double{n} * deviation(row.values, row.max);
  list_from(row, row.max, 1.0F, to_float(bound), buffers);
}

void exclude_top_choices(Row& row, float threshold, int64_t min_keep, SamplerBuffers& buffers) {
  constexpr double kLowestLog = -87.0;  // weights below are 0
  const double total = sum_exp(row.values, row.max, row.scale, buffers.block_sum.data());
  const auto bound = static_cast<float>(std::max(kLowestLog, std::log(double{threshold} * total)));
  // The smallest entry from the bound on: the last in rank.
  size_t num_choices = 0;
  size_t last = 0;
  for (size_t i = 0; i < row.values.size(); ++i) {
    if (i % kRowBlock == 0 && !((buffers.block_max[i / kRowBlock] - row.max) * row.scale >= bound)) {
      i += kRowBlock - 1;
      continue;
    }
    if (!((row.values[i] - row.max) * row.scale >= bound)) continue;
    if (num_choices == 0 || row.values[i] <= row.values[last]) last = i;
    ++num_choices;
  }
  if (num_choices < 2) return;
  const size_t remaining =
      count_from(row.values, row.max, row.scale, std::numeric_limits<float>::lowest()) - (num_choices - 1);
  if (static_cast<int64_t>(remaining) < min_keep) return;
  drop_before(row, row.values[last], row.id(last), buffers);
}

void keep_surprise(Row& row, double max_surprise, SamplerBuffers& buffers) {
  constexpr double kLog2 = 0.693147180559945309;
  const double total = sum_exp(row.values, row.max, row.scale, buffers.block_sum.data());
  const double bound = std::log(total) - max_surprise * kLog2;
  if (bound > 0.0) return keep_top_k(row, 1, buffers);
  list_from(row, row.max, row.scale, to_float(bound), buffers);
}

}  // namespace quire
