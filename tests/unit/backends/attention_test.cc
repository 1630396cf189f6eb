#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "op_testing.h"
#include "ops/checks.h"
#include "ops/reference.h"

namespace quire {
namespace {

using testing::expect_near;
using testing::fast_isas;
using testing::random_tensor;
using testing::same_row;
using testing::same_rows;
using testing::TestContext;
using testing::TestTensor;
using testing::usable_isas;

constexpr DType kFormats[] = {DType::kF32,    DType::kBF16,   DType::kF16,
                              DType::kF8E4M3, DType::kF8E5M2, DType::kI8};

struct CacheSetup {
  int32_t heads = 4;
  int32_t kv_heads = 2;
  int32_t head_dim = 32;
  int32_t block_size = 16;
  DType dtype = DType::kF32;
  AttentionParams params = {.scale = 0.2F};
};

std::string describe(const CacheSetup& s) {
  return "heads " + std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + ", head_dim " +
         std::to_string(s.head_dim) + ", block_size " + std::to_string(s.block_size) + ", " +
         std::string(dtype_name(s.dtype)) + ", window " + std::to_string(s.params.window) + ", softcap " +
         std::to_string(s.params.logit_softcap);
}

// Sequences with random keys and values in a pool whose unused bytes are NaN, the blocks in shuffled order.
class Sequences {
 public:
  Sequences(const OpTable& table, const CacheSetup& setup, std::vector<int32_t> lengths, uint32_t seed = 1)
      : table_(table), setup_(setup), lengths_(std::move(lengths)) {
    const int64_t layer = kv_bytes_per_block(setup.dtype, setup.block_size, setup.kv_heads, setup.head_dim);
    int32_t blocks = 1;
    for (const int32_t n : lengths_) blocks += (n + setup.block_size - 1) / setup.block_size;
    const int64_t stride = 3 * layer;
    pool_.assign(static_cast<size_t>(blocks * stride), std::byte{0xff});
    cache_ = {pool_.data(), stride, layer, setup.dtype, setup.block_size, setup.kv_heads, setup.head_dim};
    std::vector<int32_t> ids(static_cast<size_t>(blocks));
    std::iota(ids.begin(), ids.end(), 0);
    std::mt19937 rng(seed);
    std::shuffle(ids.begin(), ids.end(), rng);
    indptr_ = {0};
    for (size_t s = 0; s < lengths_.size(); ++s) {
      const int32_t count = (lengths_[s] + setup.block_size - 1) / setup.block_size;
      for (int32_t i = 0; i < count; ++i) table_ids_.push_back(ids[table_ids_.size()]);
      indptr_.push_back(static_cast<int32_t>(table_ids_.size()));
      queries_.push_back(random_tensor(DType::kF32, {lengths_[s], setup.heads, setup.head_dim},
                                       seed + 10 * uint32_t(s) + 1));
      const TestTensor k = random_tensor(DType::kF32, {lengths_[s], setup.kv_heads, setup.head_dim},
                                         seed + 10 * uint32_t(s) + 2, 3);
      const TestTensor v = random_tensor(DType::kF32, {lengths_[s], setup.kv_heads, setup.head_dim},
                                         seed + 10 * uint32_t(s) + 3, 5);
      std::vector<int64_t> slots;
      for (int32_t p = 0; p < lengths_[s]; ++p) {
        const int32_t block = table_ids_[static_cast<size_t>(indptr_[s] + p / setup.block_size)];
        slots.push_back(int64_t{block} * setup.block_size + p % setup.block_size);
      }
      table.kv_write(TestContext(table, 2), cache_, k, v, slots);
    }
  }
  Sequences(const Sequences&) = delete;
  Sequences& operator=(const Sequences&) = delete;

  // One step: the queries at positions [from[s], to[s]) of each sequence, in one batch. The cache is what it
  // is: positions past to[s] are filled, as if by a later step, unless `hide` has made them NaN.
  TestTensor run(const std::vector<int32_t>& from, const std::vector<int32_t>& to,
                 const OpContext& ctx) const {
    std::vector<int32_t> cu = {0};
    std::vector<int32_t> seq_lens;
    for (size_t s = 0; s < lengths_.size(); ++s) {
      cu.push_back(cu.back() + to[s] - from[s]);
      seq_lens.push_back(to[s]);
    }
    TestTensor q(DType::kF32, {cu.back(), setup_.heads, setup_.head_dim}, 4);
    for (size_t s = 0; s < lengths_.size(); ++s) {
      for (int32_t p = from[s]; p < to[s]; ++p) {
        std::copy_n(queries_[s].view().row<float>(p), q.view().row_size(),
                    q.view().row<float>(cu[s] + p - from[s]));
      }
    }
    TestTensor out(DType::kF32, {cu.back(), setup_.heads, setup_.head_dim}, 2);
    const AttentionBatch batch = {static_cast<int32_t>(lengths_.size()), cu, seq_lens, indptr_, table_ids_};
    check_paged_attention(out, q, cache_, batch);
    table_.paged_attention(ctx, out, q, cache_, batch, setup_.params);
    return out;
  }
  TestTensor run_all(const OpContext& ctx) const {
    return run(std::vector<int32_t>(lengths_.size(), 0), lengths_, ctx);
  }

  // Makes every element of positions from `from` on of sequence s NaN, as a recycled block may be.
  void hide(size_t s, int32_t from) {
    const int32_t n = lengths_[s] - from;
    const TestTensor garbage(DType::kF32, {n, setup_.kv_heads, setup_.head_dim});
    std::vector<int64_t> slots;
    for (int32_t p = from; p < lengths_[s]; ++p) {
      const int32_t block = table_ids_[static_cast<size_t>(indptr_[s] + p / setup_.block_size)];
      slots.push_back(int64_t{block} * setup_.block_size + p % setup_.block_size);
    }
    table_.kv_write(TestContext(table_), cache_, garbage, garbage, slots);
  }
  const std::vector<std::byte>& pool() const { return pool_; }
  const KvCacheView& cache() const { return cache_; }

 private:
  const OpTable& table_;
  CacheSetup setup_;
  std::vector<int32_t> lengths_;
  std::vector<std::byte> pool_;
  KvCacheView cache_;
  std::vector<int32_t> indptr_;
  std::vector<int32_t> table_ids_;
  std::vector<TestTensor> queries_;
};

std::vector<CacheSetup> setups() {
  std::vector<CacheSetup> all;
  for (const DType dtype : kFormats) {
    for (const int32_t block_size : {1, 7, 16, 32}) all.push_back({.block_size = block_size, .dtype = dtype});
    for (const int32_t head_dim : {8, 20, 64, 80, 96, 128, 256})
      all.push_back({.head_dim = head_dim, .dtype = dtype});
    all.push_back({.heads = 6, .kv_heads = 6, .dtype = dtype});
    all.push_back({.heads = 14, .kv_heads = 1, .dtype = dtype});
    all.push_back({.heads = 56, .kv_heads = 1, .head_dim = 16, .dtype = dtype});
    all.push_back({.dtype = dtype, .params = {.scale = 0.3F, .window = 17}});
    all.push_back(
        {.block_size = 7, .dtype = dtype, .params = {.scale = 0.3F, .window = 100, .logit_softcap = 2.0F}});
  }
  return all;
}

TEST(PagedAttention, AgreesWithTheReference) {
  for (const CacheSetup& setup : setups()) {
    const std::vector<int32_t> lengths = {1, 40, 17, 65, 130};
    const Sequences plain(reference_ops(), setup, lengths);
    const TestTensor want = plain.run_all(TestContext(reference_ops()));
    for (const CpuIsa& isa : fast_isas()) {
      SCOPED_TRACE(std::string(isa.name) + ", " + describe(setup));
      const Sequences sequences(*isa.table, setup, lengths);
      EXPECT_EQ(sequences.pool(), plain.pool()) << "the cache holds other bytes";
      // A score is off by up to head_dim roundings, a weight by as much in proportion.
      expect_near(sequences.run_all(TestContext(*isa.table, 2)), want, 8e-6F, 4e-6F, "against the reference");
    }
  }
}

TEST(PagedAttention, ReferenceIsSoftmaxOfTheScores) {
  // Against sums in float64 over the very keys and values.
  const CacheSetup setup = {.heads = 2, .kv_heads = 1, .head_dim = 4, .block_size = 3};
  const std::vector<int32_t> lengths = {11};
  const Sequences sequences(reference_ops(), setup, lengths);
  const TestTensor out = sequences.run_all(TestContext(reference_ops()));
  const TestTensor q = random_tensor(DType::kF32, {11, 2, 4}, 2);
  const TestTensor k = random_tensor(DType::kF32, {11, 1, 4}, 3, 3);
  const TestTensor v = random_tensor(DType::kF32, {11, 1, 4}, 4, 5);
  for (int64_t row = 0; row < 11; ++row) {
    for (int64_t head = 0; head < 2; ++head) {
      double total = 0;
      double sums[4] = {};
      for (int64_t p = 0; p <= row; ++p) {
        double dot = 0;
        for (int64_t i = 0; i < 4; ++i) dot += double{q.get(row, head * 4 + i)} * double{k.get(p, i)};
        const double weight = std::exp(dot * double{setup.params.scale});
        total += weight;
        for (int64_t i = 0; i < 4; ++i) sums[i] += weight * double{v.get(p, i)};
      }
      for (int64_t i = 0; i < 4; ++i) ASSERT_NEAR(out.get(row, head * 4 + i), sums[i] / total, 1e-5);
    }
  }
}

TEST(PagedAttention, AQueryIsTheSameInAnyChunking) {
  for (const CacheSetup& setup :
       {CacheSetup{}, CacheSetup{.block_size = 7, .dtype = DType::kBF16},
        CacheSetup{.heads = 9, .kv_heads = 3, .dtype = DType::kF16, .params = {.scale = 0.3F, .window = 90}},
        CacheSetup{.block_size = 32, .dtype = DType::kF8E4M3}, CacheSetup{.dtype = DType::kF8E5M2},
        CacheSetup{.block_size = 7, .dtype = DType::kI8},
        CacheSetup{.dtype = DType::kI8, .params = {.scale = 0.3F, .window = 90}}}) {
    for (const CpuIsa& isa : usable_isas()) {
      SCOPED_TRACE(std::string(isa.name) + ", " + describe(setup));
      const int32_t length = 600;  // two segments
      const Sequences sequences(*isa.table, setup, {length});
      const TestContext ctx(*isa.table, 2);
      const TestTensor whole = sequences.run_all(ctx);
      for (const int32_t chunk : {1, 7, 16, 130}) {
        for (int32_t from = chunk == 1 ? 480 : 0; from < length; from += chunk) {
          const int32_t to = std::min(length, from + chunk);
          const TestTensor part = sequences.run({from}, {to}, ctx);
          for (int32_t p = from; p < to; ++p) {
            ASSERT_TRUE(same_row(part, p - from, whole, p)) << "position " << p << ", chunks of " << chunk;
          }
        }
      }
    }
  }
}

TEST(PagedAttention, AQueryIsTheSameAloneAndInABatch) {
  const std::vector<int32_t> lengths = {70, 3, 700, 1, 129, 64};
  for (const CpuIsa& isa : usable_isas()) {
    const TestContext ctx(*isa.table, 2);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E5M2, DType::kI8}) {
      const Sequences sequences(*isa.table, {.dtype = dtype}, lengths);
      const TestTensor together = sequences.run({60, 0, 699, 0, 128, 10}, lengths, ctx);
      int64_t row = 0;
      const std::vector<int32_t> from = {60, 0, 699, 0, 128, 10};
      for (size_t s = 0; s < lengths.size(); ++s) {
        // The others have no rows in this step.
        std::vector<int32_t> own_from = lengths;
        own_from[s] = from[s];
        const TestTensor alone = sequences.run(own_from, lengths, ctx);
        for (int64_t r = 0; r < alone.view().rows(); ++r) {
          ASSERT_TRUE(same_row(alone, r, together, row++)) << isa.name << ", sequence " << s;
        }
      }
    }
  }
}

TEST(PagedAttention, TheNumberOfThreadsChangesNothing) {
  // One long row: on several threads its segments are computed apart.
  const std::vector<int32_t> lengths = {2100, 30, 900};
  const std::vector<int32_t> from = {2098, 29, 897};
  for (const int32_t window : {0, 700}) {
    for (const CpuIsa& isa : usable_isas()) {
      const DType dtype = window == 0 ? DType::kBF16 : DType::kI8;
      const CacheSetup setup = {.dtype = dtype, .params = {.scale = 0.2F, .window = window}};
      const Sequences sequences(*isa.table, setup, lengths);
      const TestTensor one = sequences.run(from, lengths, TestContext(*isa.table, 1));
      for (const int threads : {2, 3, 8}) {
        const TestTensor many = sequences.run(from, lengths, TestContext(*isa.table, threads));
        EXPECT_TRUE(same_rows(one, many)) << isa.name << ", " << threads << " threads, window " << window;
        if (isa.name == "generic") continue;
        // With too little room for the states of segments, these stay together.
        const TestTensor tight = sequences.run(from, lengths, TestContext(*isa.table, threads, 8, 1, 4, 32));
        EXPECT_TRUE(same_rows(one, tight)) << isa.name << ", " << threads << " threads, little workspace";
      }
    }
  }
}

TEST(PagedAttention, GarbageInUnusedSlotsChangesNothing) {
  for (const int32_t block_size : {16, 7}) {
    for (const DType dtype : kFormats) {
      for (const CpuIsa& isa : usable_isas()) {
        const CacheSetup setup = {.block_size = block_size, .dtype = dtype};
        Sequences sequences(*isa.table, setup, {150});
        const TestContext ctx(*isa.table);
        const TestTensor before = sequences.run({80}, {101}, ctx);
        sequences.hide(0, 101);
        const TestTensor after = sequences.run({80}, {101}, ctx);
        EXPECT_TRUE(same_rows(before, after)) << isa.name << ", " << describe(setup);
        for (int64_t r = 0; r < after.view().rows(); ++r) {
          for (int64_t i = 0; i < after.view().row_size(); ++i) ASSERT_FALSE(std::isnan(after.get(r, i)));
        }
      }
    }
  }
}

TEST(PagedAttention, LaterTokensOfTheSameStepDoNotReachEarlierOnes) {
  for (const CpuIsa& isa : usable_isas()) {
    for (const DType dtype : kFormats) {
      Sequences sequences(*isa.table, {.dtype = dtype}, {100});
      SCOPED_TRACE(std::string(isa.name) + ", " + std::string(dtype_name(dtype)));
      const TestContext ctx(*isa.table);
      const TestTensor before = sequences.run_all(ctx);
      sequences.hide(0, 70);
      const TestTensor after = sequences.run_all(ctx);
      for (int64_t r = 0; r < 70; ++r) ASSERT_TRUE(same_row(before, r, after, r)) << "row " << r;
      EXPECT_TRUE(std::isnan(after.get(70, 0))) << "a NaN among keys and values must show";
    }
  }
}

TEST(PagedAttention, InstructionSetsAgreeBitwise) {
  const std::vector<CpuIsa> isas = fast_isas();
  if (isas.size() < 2)
    GTEST_SKIP() << "this machine runs fewer than two instruction sets above the plain one";
  for (const CacheSetup& setup : setups()) {
    const std::vector<int32_t> lengths = {5, 90, 530};
    const TestTensor first = Sequences(*isas[0].table, setup, lengths).run_all(TestContext(*isas[0].table));
    for (size_t i = 1; i < isas.size(); ++i) {
      const TestTensor other = Sequences(*isas[i].table, setup, lengths).run_all(TestContext(*isas[i].table));
      EXPECT_TRUE(same_rows(first, other)) << isas[i].name << ", " << describe(setup);
    }
  }
}

TEST(PagedAttention, RefusesTooSmallAWorkspace) {
  for (const CpuIsa& isa : usable_isas()) {
    const Sequences sequences(*isa.table, {}, {20});
    EXPECT_THROW(sequences.run_all(OpContext{}), Error) << isa.name;
  }
}

TEST(KvWrite, SkipsRowsWithoutASlot) {
  for (const CpuIsa& isa : usable_isas()) {
    const CacheSetup setup = {.kv_heads = 2, .head_dim = 10, .block_size = 4};
    const Sequences sequences(*isa.table, setup, {3});
    const std::vector<std::byte> before = sequences.pool();
    const TestTensor k = random_tensor(DType::kF32, {2, 2, 10}, 50);
    const std::vector<int64_t> slots = {-1, -1};
    isa.table->kv_write(TestContext(*isa.table), sequences.cache(), k, k, slots);
    EXPECT_EQ(before, sequences.pool()) << isa.name;
  }
}

// A pool of three blocks in which `written` tokens were stored by kv_write, `step` of them at a time.
std::vector<std::byte> pool_after_steps(const OpTable& table, DType dtype, const TestTensor& k,
                                        const TestTensor& v, int64_t step) {
  const int32_t block_size = 5;
  const auto kv_heads = static_cast<int32_t>(k.view().shape[1]);
  const auto head_dim = static_cast<int32_t>(k.view().shape[2]);
  const int64_t stride = kv_bytes_per_block(dtype, block_size, kv_heads, head_dim);
  std::vector<std::byte> pool(static_cast<size_t>(3 * stride), std::byte{0xa5});
  const KvCacheView cache = {pool.data(), stride, 0, dtype, block_size, kv_heads, head_dim};
  for (int64_t begin = 0; begin < k.view().rows(); begin += step) {
    const int64_t end = std::min(k.view().rows(), begin + step);
    std::vector<int64_t> slots(static_cast<size_t>(end - begin));
    std::iota(slots.begin(), slots.end(), begin);
    table.kv_write(TestContext(table, 2), cache, row_slice(k, begin, end), row_slice(v, begin, end), slots);
  }
  return pool;
}

TEST(KvWrite, AnyChunkingGivesTheSameBytes) {
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

// Values at the edges of the formats: halfway points, largest and smallest numbers, zeros of both signs, what
// is not finite.
std::vector<float> edge_values() {
  const float inf = std::numeric_limits<float>::infinity();
  std::vector<float> all = {0.0F,     0x1p-149F, 0x1p-126F, 0x1p-17F, 0x1p-16F,     0x1p-10F,
                            447.0F,   464.0F,    465.0F,    480.0F,   57344.0F,     61440.0F,
                            65504.0F, 1e30F,     3e38F,     inf,      testing::kNaN};
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

TEST(KvWrite, EdgesAreRoundedLikeTheReference) {
  const std::vector<float> edges = edge_values();
  // Beside one edge in a head stand ordinary numbers, so that a scale is made of both.
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
      table.kv_write(TestContext(table), cache, alone, mixed, slots);
      return pool;
    };
    const std::vector<std::byte> want = written(reference_ops());
    for (const CpuIsa& isa : fast_isas()) {
      EXPECT_EQ(written(*isa.table), want) << isa.name << ", " << dtype_name(dtype);
    }
  }
}

// Every code of the 8-bit formats, read by attention: with one position its weight is 1, and the result is
// the position's value.
TEST(PagedAttention, ReadsEveryCodeOfAValue) {
  constexpr int32_t kHeadDim = 256;
  for (const DType dtype : {DType::kF8E4M3, DType::kF8E5M2, DType::kI8}) {
    std::vector<std::byte> pool(static_cast<size_t>(kv_bytes_per_block(dtype, 1, 1, kHeadDim)));
    const KvCacheView cache = {pool.data(), static_cast<int64_t>(pool.size()), 0, dtype, 1, 1, kHeadDim};
    std::byte* values = pool.data() + pool.size() / 2;
    for (int i = 0; i < kHeadDim; ++i) values[i] = static_cast<std::byte>(i);
    const float scale = 0.125F;
    if (kv_has_scales(dtype)) std::memcpy(values + kHeadDim, &scale, sizeof(scale));
    const TestTensor q = random_tensor(DType::kF32, {1, 1, kHeadDim}, 80);
    const std::vector<int32_t> cu = {0, 1}, lens = {1}, indptr = {0, 1}, ids = {0};
    for (const CpuIsa& isa : usable_isas()) {
      TestTensor out(DType::kF32, {1, 1, kHeadDim});
      isa.table->paged_attention(TestContext(*isa.table), out, q, cache, {1, cu, lens, indptr, ids}, {});
      for (int i = 0; i < kHeadDim; ++i) {
        const float want = load_f32(dtype, values, i) * (kv_has_scales(dtype) ? scale : 1.0F);
        if (std::isnan(want)) {
          EXPECT_TRUE(std::isnan(out.get(0, i))) << isa.name << ", " << dtype_name(dtype) << " " << i;
        } else {
          EXPECT_EQ(out.get(0, i), want) << isa.name << ", " << dtype_name(dtype) << " " << i;
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
