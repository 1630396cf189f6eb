#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "attention_testing.h"
#include "base/error.h"
#include "ops/reference.h"
#include "support/sanitizers.h"

namespace quire {
namespace {

using test::CacheSetup;
using test::describe;
using test::expect_near;
using test::fast_isas;
using test::kFormats;
using test::kSinks;
using test::kSlopes;
using test::multiplies_pairs;
using test::random_tensor;
using test::same_row;
using test::same_rows;
using test::Sequences;
using test::TestContext;
using test::TestTensor;
using test::usable_isas;

std::vector<CacheSetup> setups() {
  std::vector<CacheSetup> all;
  for (const DType dtype : kFormats) {
    for (const int32_t block_size : {1, 7, 16, 32}) all.push_back({.block_size = block_size, .dtype = dtype});
    for (const int32_t head_dim : {8, 20, 64, 80, 96, 128, 256})
      all.push_back({.head_dim = head_dim, .dtype = dtype});
    all.push_back({.heads = 6, .kv_heads = 6, .dtype = dtype});
    all.push_back({.head_dim = 192, .dtype = dtype, .value_dim = 128});
    all.push_back({.head_dim = 12, .block_size = 7, .dtype = dtype, .value_dim = 5});
    all.push_back({.heads = 14, .kv_heads = 1, .head_dim = 40, .dtype = dtype, .value_dim = 24});
    all.push_back({.heads = 14, .kv_heads = 1, .dtype = dtype});
    all.push_back({.heads = 56, .kv_heads = 1, .head_dim = 16, .dtype = dtype});
    all.push_back({.dtype = dtype, .params = {.scale = 0.3F, .window = 17}});
    all.push_back(
        {.block_size = 7, .dtype = dtype, .params = {.scale = 0.3F, .window = 100, .logit_softcap = 2.0F}});
    all.push_back({.dtype = dtype, .params = {.scale = 0.3F, .chunk = 24}});
    for (const int32_t window : {0, 1, 9, 70, 1000}) {
      all.push_back({.block_size = window == 9 ? 7 : 16,
                     .dtype = dtype,
                     .params = {.scale = 0.3F, .window = window, .bidirectional = true}});
    }
    all.push_back({.dtype = dtype, .params = {.scale = 0.3F, .alibi_slopes = kSlopes}});
    all.push_back({.dtype = dtype, .params = {.scale = 0.3F, .sinks = kSinks}});
    for (const int32_t head_dim : {32, 48, 64, 80, 96, 128, 256}) {
      all.push_back({.heads = 6,
                     .kv_heads = head_dim % 64 == 0 ? 1 : 3,
                     .head_dim = head_dim,
                     .dtype = dtype,
                     .params = {.scale = 0.1F, .window = 90, .alibi_slopes = kSlopes, .sinks = kSinks}});
    }
  }
  return all;
}

// Sequence lengths of a batch that is computed as a whole.
std::vector<int32_t> batch_lengths() {
  return test::kSanitizer ? std::vector<int32_t>{1, 40, 17, 65} : std::vector<int32_t>{1, 40, 17, 65, 130};
}

TEST(PagedAttention, MatchesTheReference) {
  for (const CacheSetup& setup : setups()) {
    const std::vector<int32_t> lengths = batch_lengths();
    const Sequences plain(reference_ops(), setup, lengths);
    const TestTensor want = plain.run_all(TestContext(reference_ops()));
    for (const CpuIsa& isa : fast_isas()) {
      SCOPED_TRACE(std::string(isa.name) + ", " + describe(setup));
      const Sequences sequences(*isa.table, setup, lengths);
      EXPECT_EQ(sequences.pool(), plain.pool()) << "the cache contents differ";
      if (multiplies_pairs(isa, setup.dtype)) continue;
      // A score is off by at most head_dim roundings; the relative error of a weight is as large.
      expect_near(sequences.run_all(TestContext(*isa.table, 2, 256, 512, 56)), want, 8e-6F, 4e-6F,
                  "against the reference");
    }
  }
}

TEST(PagedAttention, Bfloat16PairsMatchTheReference) {
  const std::vector<CpuIsa> isas = fast_isas();
  if (!multiplies_pairs(isas.empty() ? cpu_isas()[0] : isas.back(), DType::kBF16))
    GTEST_SKIP() << "this machine has no bfloat16 dot products";
  const CpuIsa& isa = isas.back();
  const std::vector<int32_t> lengths = batch_lengths();
  for (const CacheSetup& setup : setups()) {
    if (!multiplies_pairs(isa, setup.dtype)) continue;
    SCOPED_TRACE(describe(setup));
    Sequences plain(reference_ops(), setup, lengths);
    Sequences pairs(*isa.table, setup, lengths);
    const TestContext ctx(*isa.table, 2, 256, 512, 56);
    plain.round_queries();
    // The relative rounding error of a weight is at most 2^-9, and values are at most 4.5.
    expect_near(pairs.run_all(ctx), plain.run_all(TestContext(reference_ops())), 4.5F / 512, 0.0F,
                "with rounded queries");
    const bool token_scales = setup.dtype == DType::kI8;  // the weights are multiplied by token scales
    if (token_scales || setup.params.alibi_slopes != nullptr || setup.params.sinks != nullptr) continue;
    plain.clear_queries();
    pairs.clear_queries();
    expect_near(pairs.run_all(ctx), plain.run_all(TestContext(reference_ops())), 4e-6F, 4e-6F,
                "with all weights equal to 1");
  }
}

TEST(PagedAttention, ReferenceMatchesSoftmaxInFloat64) {
  // Compared with float64 sums over the same keys and values.
  const AttentionParams plain = {.scale = 0.2F};
  const AttentionParams biased = {.scale = 0.2F, .alibi_slopes = kSlopes, .sinks = kSinks};
  const AttentionParams both_ways = {.scale = 0.2F, .bidirectional = true};
  const AttentionParams near = {.scale = 0.2F, .window = 3, .bidirectional = true};
  for (const AttentionParams& params : {plain, biased, both_ways, near}) {
    const CacheSetup setup = {.heads = 2, .kv_heads = 1, .head_dim = 4, .block_size = 3, .params = params};
    const Sequences sequences(reference_ops(), setup, {11});
    const TestTensor out = sequences.run_all(TestContext(reference_ops()));
    const TestTensor q = random_tensor(DType::kF32, {11, 2, 4}, 2);
    const TestTensor k = random_tensor(DType::kF32, {11, 1, 4}, 3, 3);
    const TestTensor v = random_tensor(DType::kF32, {11, 1, 4}, 4, 5);
    for (int64_t row = 0; row < 11; ++row) {
      for (int64_t head = 0; head < 2; ++head) {
        double total = params.sinks == nullptr ? 0 : std::exp(double{kSinks[head]});
        double sums[4] = {};
        for (int64_t p = 0; p < 11; ++p) {
          if (!params.bidirectional && p > row) continue;
          if (params.window > 0 && std::abs(p - row) >= params.window) continue;
          double dot = 0;
          for (int64_t i = 0; i < 4; ++i) dot += double{q.get(row, head * 4 + i)} * double{k.get(p, i)};
          double score = dot * double{params.scale};
          if (params.alibi_slopes != nullptr) score -= double{kSlopes[head]} * static_cast<double>(row - p);
          const double weight = std::exp(score);
          total += weight;
          for (int64_t i = 0; i < 4; ++i) sums[i] += weight * double{v.get(p, i)};
        }
        for (int64_t i = 0; i < 4; ++i) ASSERT_NEAR(out.get(row, head * 4 + i), sums[i] / total, 1e-5);
      }
    }
  }
}

TEST(PagedAttention, ResultsDoNotDependOnChunking) {
  for (const CacheSetup& setup :
       {CacheSetup{}, CacheSetup{.block_size = 7, .dtype = DType::kBF16},
        CacheSetup{.heads = 9, .kv_heads = 3, .dtype = DType::kF16, .params = {.scale = 0.3F, .window = 90}},
        CacheSetup{.block_size = 32, .dtype = DType::kF8E4M3}, CacheSetup{.dtype = DType::kF8E5M2},
        CacheSetup{.block_size = 7, .dtype = DType::kI8},
        CacheSetup{.dtype = DType::kI8, .params = {.scale = 0.3F, .window = 90}},
        CacheSetup{.dtype = DType::kBF16,
        .params = {.scale = 0.3F, .alibi_slopes = kSlopes, .sinks = kSinks}}}) {
    for (const CpuIsa& isa : usable_isas()) {
      SCOPED_TRACE(std::string(isa.name) + ", " + describe(setup));
      const int32_t length = 600;  // two KV splits
      const Sequences sequences(*isa.table, setup, {length});
      const TestContext ctx(*isa.table, 2);
      const TestTensor whole = sequences.run_all(ctx);
      for (const int32_t chunk : {1, 7, 16, 130}) {
        if (test::kSanitizer && chunk == 7) continue;
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

TEST(PagedAttention, ResultsDoNotDependOnTheBatch) {
  const std::vector<int32_t> lengths = {70, 3, 700, 1, 129, 64};
  for (const CpuIsa& isa : usable_isas()) {
    const TestContext ctx(*isa.table, 2);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF8E5M2, DType::kI8}) {
      const Sequences sequences(*isa.table, {.dtype = dtype}, lengths);
      const TestTensor together = sequences.run({60, 0, 699, 0, 128, 10}, lengths, ctx);
      int64_t row = 0;
      const std::vector<int32_t> from = {60, 0, 699, 0, 128, 10};
      for (size_t s = 0; s < lengths.size(); ++s) {
        // The other sequences have no rows in this step.
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

TEST(PagedAttention, BidirectionalResultsDoNotDependOnBatchOrThreads) {
  const std::vector<int32_t> lengths = {70, 3, test::repetitions(1300, 600), 1, 129, 64};
  for (const CpuIsa& isa : usable_isas()) {
    for (const int32_t window : {0, 90}) {
      const AttentionParams params = {.scale = 0.2F, .window = window, .bidirectional = true};
      const Sequences sequences(*isa.table, {.dtype = DType::kBF16, .params = params}, lengths);
      const TestTensor together = sequences.run_all(TestContext(*isa.table, 2));
      for (const int threads : {1, 3}) {
        const TestContext ctx(*isa.table, threads);
        int64_t row = 0;
        for (size_t s = 0; s < lengths.size(); ++s) {
          std::vector<int32_t> from = lengths;
          from[s] = 0;
          const TestTensor alone = sequences.run(from, lengths, ctx);
          for (int64_t r = 0; r < alone.view().rows(); ++r) {
            ASSERT_TRUE(same_row(alone, r, together, row++))
                << isa.name << ", sequence " << s << ", window " << window << ", " << threads << " threads";
          }
        }
      }
    }
  }
}

TEST(PagedAttention, ResultsDoNotDependOnTheNumberOfThreads) {
  // One long row: with several threads, its KV splits are computed separately.
  const std::vector<int32_t> lengths = {2100, 30, 900};
  const std::vector<int32_t> from = {2098, 29, 897};
  const AttentionParams window = {.scale = 0.2F, .window = 700};
  const AttentionParams chunk = {.scale = 0.2F, .chunk = 1300};
  for (const AttentionParams& params : {AttentionParams{.scale = 0.2F}, window, chunk}) {
    for (const CpuIsa& isa : usable_isas()) {
      const DType dtype = params.window == 0 ? DType::kBF16 : DType::kI8;
      const CacheSetup setup = {.dtype = dtype, .params = params};
      const Sequences sequences(*isa.table, setup, lengths);
      const TestTensor one = sequences.run(from, lengths, TestContext(*isa.table, 1));
      for (const int threads : {2, 3, 8}) {
        const TestTensor many = sequences.run(from, lengths, TestContext(*isa.table, threads));
        EXPECT_TRUE(same_rows(one, many)) << isa.name << ", " << threads << " threads, " << describe(setup);
        if (isa.name == "generic") continue;
        // If the workspace is too small for partial states, KV splits are not computed separately.
        const TestTensor tight = sequences.run(from, lengths, TestContext(*isa.table, threads, 8, 1, 4, 32));
        EXPECT_TRUE(same_rows(one, tight)) << isa.name << ", " << threads << " threads, small workspace";
      }
    }
  }
}

TEST(PagedAttention, ResultsDoNotDependOnUnusedSlots) {
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

TEST(PagedAttention, LaterTokensOfAStepDoNotAffectEarlierOnes) {
  for (const CpuIsa& isa : usable_isas()) {
    for (const DType dtype : kFormats) {
      Sequences sequences(*isa.table, {.dtype = dtype}, {100});
      SCOPED_TRACE(std::string(isa.name) + ", " + std::string(dtype_name(dtype)));
      const TestContext ctx(*isa.table);
      const TestTensor before = sequences.run_all(ctx);
      sequences.hide(0, 70);
      const TestTensor after = sequences.run_all(ctx);
      for (int64_t r = 0; r < 70; ++r) ASSERT_TRUE(same_row(before, r, after, r)) << "row " << r;
      EXPECT_TRUE(std::isnan(after.get(70, 0))) << "NaN keys and values must give NaN";
    }
  }
}

TEST(PagedAttention, InstructionSetsGiveTheSameBits) {
  const std::vector<CpuIsa> isas = fast_isas();
  if (isas.size() < 2) GTEST_SKIP() << "this machine supports fewer than two levels above generic";
  for (const CacheSetup& setup : setups()) {
    // The longest sequence has two KV splits.
    const std::vector<int32_t> from = {0, 0, test::repetitions(0, 498)};
    const std::vector<int32_t> lengths = {5, 90, 530};
    const auto run = [&](const OpTable& ops) {
      return Sequences(ops, setup, lengths).run(from, lengths, TestContext(ops, 1, 1024, 1024, 56));
    };
    const TestTensor first = run(*isas[0].table);
    for (size_t i = 1; i < isas.size(); ++i) {
      if (multiplies_pairs(isas[i], setup.dtype)) continue;
      EXPECT_TRUE(same_rows(first, run(*isas[i].table))) << isas[i].name << ", " << describe(setup);
    }
  }
}

TEST(PagedAttention, RejectsATooSmallWorkspace) {
  for (const CpuIsa& isa : usable_isas()) {
    const Sequences sequences(*isa.table, {}, {20});
    EXPECT_THROW(sequences.run_all(OpContext{}), Error) << isa.name;
  }
}

// Reads every code of the 8-bit formats. With a single position the weight is 1, so the result is the value
// of that position.
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
      isa.table->run(
          TestContext(*isa.table),
          ops::PagedAttention{
              .out = out, .q = q, .cache = cache, .batch = {1, cu, lens, indptr, ids}, .params = {}});
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
