#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "attention_testing.h"
#include "ops/reference.h"

namespace quire {
namespace {

using test::CacheSetup;
using test::fast_isas;
using test::kFormats;
using test::random_tensor;
using test::Sequences;
using test::TestContext;
using test::TestTensor;
using test::usable_isas;

TEST(KvWrite, SkipsRowsWithoutASlot) {
  for (const CpuIsa& isa : usable_isas()) {
    const CacheSetup setup = {.kv_heads = 2, .head_dim = 10, .block_size = 4};
    const Sequences sequences(*isa.table, setup, {3});
    const std::vector<std::byte> before = sequences.pool();
    const TestTensor k = random_tensor(DType::kF32, {2, 2, 10}, 50);
    const std::vector<int64_t> slots = {-1, -1};
    isa.table->run(TestContext(*isa.table),
                   ops::KvWrite{.cache = sequences.cache(), .k = k, .v = k, .slot_mapping = slots});
    EXPECT_EQ(before, sequences.pool()) << isa.name;
  }
}

// Returns a pool of three blocks after `written` tokens were stored by kv_write, `step` at a time.
std::vector<std::byte> pool_after_steps(const OpTable& table, DType dtype, const TestTensor& k,
                                        const TestTensor& v, int64_t step) {
  const int32_t block_size = 5;
  const auto kv_heads = static_cast<int32_t>(k.view().shape[1]);
  const auto head_dim = static_cast<int32_t>(k.view().shape[2]);
  const int64_t stride = kv_bytes_per_block(dtype, block_size, kv_heads, head_dim);
  std::vector<std::byte> pool(static_cast<size_t>(3 * stride), std::byte{0xa5});
  const KvCacheView cache = {pool.data(), stride, 0, dtype, block_size, kv_heads, head_dim};
  const TestContext ctx(table, 2, 1, 1, 1, 16);
  for (int64_t begin = 0; begin < k.view().rows(); begin += step) {
    const int64_t end = std::min(k.view().rows(), begin + step);
    std::vector<int64_t> slots(static_cast<size_t>(end - begin));
    std::iota(slots.begin(), slots.end(), begin);
    table.run(ctx, ops::KvWrite{.cache = cache,
                                .k = row_slice(k, begin, end),
                                .v = row_slice(v, begin, end),
                                .slot_mapping = slots});
  }
  return pool;
}

TEST(KvWrite, BytesDoNotDependOnChunking) {
  for (const DType dtype : kFormats) {
    const TestTensor k = random_tensor(DType::kF32, {13, 3, 21}, 60, 1);
    const TestTensor v = random_tensor(DType::kF32, {13, 3, 21}, 61, 2);
    const std::vector<std::byte> want = pool_after_steps(reference_ops(), dtype, k, v, 13);
    for (const CpuIsa& isa : usable_isas()) {
      for (const int64_t step : {1, 4, 13}) {
        EXPECT_EQ(pool_after_steps(*isa.table, dtype, k, v, step), want)
            << isa.name << ", " << dtype_name(dtype) << ", " << step << " at a time";
      }
    }
  }
}

// Values at the edges of the formats: halfway points, the largest and smallest values, zeros of both signs,
// infinities and NaN.
std::vector<float> edge_values() {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> all = {0.0F,     0x1p-149F, 0x1p-126F, 0x1p-17F, 0x1p-16F,  0x1p-10F,
                            447.0F,   464.0F,    465.0F,    480.0F,   57344.0F,  61440.0F,
                            65504.0F, 1e30F,     3e38F,     inf,      test::kNaN};
  for (int code = 0; code < 127; ++code) {
    for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2}) {
      const uint8_t pair[2] = {static_cast<uint8_t>(code), static_cast<uint8_t>(code + 1)};
      const float low = load_f32(dtype, pair, 0);
      const float high = load_f32(dtype, pair, 1);
      if (!std::isfinite(high)) continue;
      const float middle = (low + high) / 2;
      all.insert(all.end(), {low, middle, std::nextafter(middle, 0.0F), std::nextafter(middle, inf)});
    }
  }
  const size_t count = all.size();
  for (size_t i = 0; i < count; ++i) all.push_back(-all[i]);
  return all;
}

TEST(KvWrite, EdgeValuesAreRoundedLikeTheReference) {
  const std::vector<float> edges = edge_values();
  // A head also has ordinary values next to an edge value, so that its scale depends on both.
  constexpr int64_t kHeadDim = 17;
  const auto rows = static_cast<int64_t>(edges.size());
  const TestTensor ordinary = random_tensor(DType::kF32, {rows, 1, kHeadDim}, 70);
  TestTensor mixed = ordinary;
  TestTensor alone(DType::kF32, {rows, 1, kHeadDim});
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < kHeadDim; ++i) alone.set(r, i, edges[static_cast<size_t>(r)]);
    mixed.set(r, r % kHeadDim, edges[static_cast<size_t>(r)]);
  }
  const auto blocks = static_cast<int32_t>((rows + 15) / 16);
  std::vector<int64_t> slots(static_cast<size_t>(rows));
  std::iota(slots.begin(), slots.end(), 0);
  for (const DType dtype : kFormats) {
    const int64_t stride = kv_bytes_per_block(dtype, 16, 1, kHeadDim);
    const auto written = [&](const OpTable& table) {
      std::vector<std::byte> pool(static_cast<size_t>(blocks * stride));
      const KvCacheView cache = {pool.data(), stride, 0, dtype, 16, 1, kHeadDim};
      table.run(TestContext(table),
                ops::KvWrite{.cache = cache, .k = alone, .v = mixed, .slot_mapping = slots});
      return pool;
    };
    const std::vector<std::byte> want = written(reference_ops());
    for (const CpuIsa& isa : fast_isas()) {
      EXPECT_EQ(written(*isa.table), want) << isa.name << ", " << dtype_name(dtype);
    }
  }
}

}  // namespace
}  // namespace quire
