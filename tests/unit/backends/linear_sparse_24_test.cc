// Products with 2:4 sparse matrices: the same bits as products with the dense matrices.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "op_testing.h"

namespace quire {
namespace {

using test::fast_isas;
using test::random_tensor;
using test::same_row;
using test::same_rows;
using test::TestContext;
using test::TestTensor;
using test::usable_isas;

constexpr DType kSparseStored[] = {DType::kF32, DType::kBF16, DType::kF16};

// Random 2:4 sparse weights. A few of the zeros are negative.
TestTensor pruned(DType dtype, int64_t n, int64_t k, bool fewer, uint32_t seed) {
  TestTensor w = random_tensor(dtype, {n, k}, seed, 5);
  std::mt19937 rng(seed);
  for (int64_t r = 0; r < n; ++r) {
    std::array<bool, 4> kept = {};
    for (int64_t i = 0; i < k; ++i) {
      if (i % 4 == 0) {
        kept = {};
        const auto first = rng() % 4;
        kept[first] = kept[(first + 1 + rng() % 3) % 4] = true;
      }
      if (kept[static_cast<size_t>(i % 4)] && (!fewer || rng() % 3 == 0)) continue;
      w.set(r, i, rng() % 8 == 0 ? -0.0F : 0.0F);
    }
  }
  return w;
}

PackedLinear pack(const OpTable& table, const OpContext& ctx, std::span<const TensorView> parts, DType format,
                  bool sparse_24) {
  return table.pack_linear(ctx, parts, WeightFormat{.dtype = format, .sparse_24 = sparse_24});
}

struct Kept {
  CpuIsa isa;
  DType format;
};
// Levels that have a 2:4 sparse kernel for a type.
std::vector<Kept> all_kept() {
  std::vector<Kept> all;
  for (const CpuIsa& isa : usable_isas()) {
    for (const DType format : kSparseStored) {
      if (isa.table->keeps_sparse_24(format, 64)) all.push_back({isa, format});
    }
  }
  return all;
}

TEST(LinearSparse24, HasTheBitsOfTheDenseProduct) {
  struct Case {
    int64_t m, n, k;
  };
  const Case cases[] = {{1, 1, 32},     {1, 33, 64},    {2, 32, 96},   {3, 100, 160},
                        {5, 31, 512},   {8, 70, 544},   {10, 96, 320}, {11, 257, 32},
                        {12, 31, 1024}, {13, 40, 1056}, {31, 32, 64},  {200, 130, 608}};
  uint32_t seed = 0;
  for (const Kept& kept : all_kept()) {
    const OpTable& table = *kept.isa.table;
    const TestContext ctx(table, 2);
    for (const Case& c : cases) {
      ++seed;
      SCOPED_TRACE(std::string(kept.isa.name) + " " + std::string(dtype_name(kept.format)) + " " +
                   std::to_string(c.m) + " x " + std::to_string(c.n) + " x " + std::to_string(c.k));
      // Two stacked parts of any types.
      const TestTensor first = pruned(kept.format, c.n, c.k, seed % 2 == 0, seed);
      const TestTensor second = pruned(kSparseStored[seed % 3], 5, c.k, seed % 2 == 0, seed + 1000);
      const std::vector<TensorView> parts = {first, second};
      const TestTensor x = random_tensor(DType::kF32, {c.m, c.k}, 1, 3);
      const TestTensor residual = random_tensor(DType::kF32, {c.m, c.n + 5}, 3, 1);
      const TestTensor want(DType::kF32, {c.m, c.n + 5}, 2);
      const TestTensor got(DType::kF32, {c.m, c.n + 5}, 2);
      table.run(
          ctx,
          ops::Linear{
              .out = want, .x = x, .w = pack(table, ctx, parts, kept.format, false), .residual = residual});
      table.run(
          ctx,
          ops::Linear{
              .out = got, .x = x, .w = pack(table, ctx, parts, kept.format, true), .residual = residual});
      ASSERT_TRUE(same_rows(got, want));
      // Memory between rows is not written.
      for (int64_t r = 0; r < c.m; ++r) ASSERT_TRUE(std::isnan(got.get(r, c.n + 5)));
    }
  }
}

TEST(LinearSparse24, ResultsDoNotDependOnTheBatch) {
  for (const Kept& kept : all_kept()) {
    const OpTable& table = *kept.isa.table;
    const TestContext ctx(table);
    const int64_t k = 576;
    const int64_t n = 100;
    const TestTensor x = random_tensor(DType::kF32, {45, k}, 4);
    const TestTensor w = pruned(kept.format, n, k, false, 5);
    const PackedLinear packed = pack(table, ctx, std::vector<TensorView>{w}, kept.format, true);
    const TestTensor alone(DType::kF32, {45, n});
    for (int64_t r = 0; r < 45; ++r)
      table.run(ctx,
                ops::Linear{.out = row_slice(alone, r, r + 1), .x = row_slice(x, r, r + 1), .w = packed});
    for (int64_t m = 2; m <= 45; ++m) {
      const TestTensor out(DType::kF32, {m, n});
      table.run(ctx, ops::Linear{.out = out, .x = row_slice(x, 45 - m, 45), .w = packed});
      for (int64_t r = 0; r < m; ++r)
        ASSERT_TRUE(same_row(out, r, alone, 45 - m + r)) << kept.isa.name << ", row " << r << " of " << m;
    }
  }
}

TEST(LinearSparse24, InfinityAndNanAffectTheirRowOnly) {
  for (const Kept& kept : all_kept()) {
    const OpTable& table = *kept.isa.table;
    const TestContext ctx(table);
    const TestTensor w = pruned(kept.format, 70, 96, false, 5);
    TestTensor x = random_tensor(DType::kF32, {3, 96}, 1);
    x.set(0, 17, std::numeric_limits<float>::infinity());
    x.set(1, 18, test::kNaN);
    const TestTensor out(DType::kF32, {3, 70});
    table.run(ctx,
              ops::Linear{
                  .out = out, .x = x, .w = pack(table, ctx, std::vector<TensorView>{w}, kept.format, true)});
    for (int64_t j = 0; j < 70; ++j) {
      EXPECT_EQ(std::isinf(out.get(0, j)), w.get(j, 17) != 0.0F) << j;
      EXPECT_EQ(std::isnan(out.get(1, j)), w.get(j, 18) != 0.0F) << j;
      EXPECT_TRUE(std::isfinite(out.get(2, j))) << j;
    }
  }
}

TEST(LinearSparse24, UsesNineSixteenthsOfTheBytesOfBfloat16) {
  const TestTensor w = pruned(DType::kBF16, 256, 1024, false, 3);
  const std::vector<TensorView> parts = {w};
  for (const CpuIsa& isa : fast_isas()) {
    if (!isa.table->keeps_sparse_24(DType::kBF16, 1024)) continue;
    const TestContext ctx(*isa.table);
    const PackedLinear packed = pack(*isa.table, ctx, parts, DType::kBF16, true);
    EXPECT_EQ(packed.data.size(), 256U * 1024 * 2 * 9 / 16);
    EXPECT_DOUBLE_EQ(bits_per_weight(packed.format, 1024), 9.0);
  }
}

TEST(LinearSparse24, RejectsOtherMatrices) {
  const TestTensor narrow = pruned(DType::kBF16, 40, 48, false, 3);
  for (const CpuIsa& isa : fast_isas()) {
    const TestContext ctx(*isa.table);
    EXPECT_FALSE(isa.table->keeps_sparse_24(DType::kBF16, 48)) << isa.name;
    EXPECT_THROW(pack(*isa.table, ctx, std::vector<TensorView>{narrow}, DType::kBF16, true), Error);
  }
  EXPECT_THROW(check_weight_format({.dtype = DType::kI8, .sparse_24 = true}), Error);
}

}  // namespace
}  // namespace quire
