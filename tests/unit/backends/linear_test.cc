#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "op_testing.h"
#include "ops/reference.h"

namespace quire {
namespace {

using test::fast_isas;
using test::random_tensor;
using test::same_row;
using test::same_rows;
using test::TestContext;
using test::TestTensor;
using test::usable_isas;

constexpr DType kStored[] = {DType::kF32, DType::kBF16, DType::kF16};

Buffer make_bias(int64_t n) {
  const TestTensor values = random_tensor(DType::kF32, {1, n}, 99);
  Buffer bias(static_cast<size_t>(n) * sizeof(float));
  std::memcpy(bias.data(), values.view().data, bias.size());
  return bias;
}

PackedLinear pack(const OpTable& table, const OpContext& ctx, const TensorView& w, DType format) {
  const std::vector<TensorView> parts = {w};
  return table.pack_linear(ctx, parts, WeightFormat{format});
}

// Weight element [row, i] as stored in the format.
float stored(const TestTensor& w, DType format, int64_t row, int64_t i) {
  float cell = 0;
  store_f32(format, &cell, 0, w.get(row, i));
  return load_f32(format, &cell, 0);
}

// Whether this level rounds activations to bfloat16.
bool rounds_activations(const CpuIsa& isa, DType format) {
  return test::multiplies_bf16(isa) && format == DType::kBF16;
}

// x as rounded by this level.
TestTensor as_rounded(const CpuIsa& isa, DType format, const TestTensor& x) {
  TestTensor taken = x;
  if (!rounds_activations(isa, format)) return taken;
  for (int64_t r = 0; r < x.view().rows(); ++r) {
    for (int64_t i = 0; i < x.view().row_size(); ++i) taken.set(r, i, bf16_to_f32(f32_to_bf16(x.get(r, i))));
  }
  return taken;
}

TEST(Linear, MatchesFloat64WithinRounding) {
  struct Case {
    int64_t m, n, k;
  };
  const Case cases[] = {{1, 1, 1},     {1, 33, 7},     {2, 32, 1},     {3, 100, 65},
                        {5, 31, 128},  {6, 64, 64},    {7, 257, 33},   {13, 96, 300},
                        {1, 512, 512}, {40, 130, 700}, {200, 65, 140}, {1, 31, 1000},
                        {70, 1, 1},    {61, 33, 5},    {12, 161, 77},  {25, 40, 513}};
  for (const CpuIsa& isa : usable_isas()) {
    const TestContext ctx(*isa.table, 2);
    for (const DType format : kStored) {
      for (const Case& c : cases) {
        for (const bool extras : {false, true}) {
          SCOPED_TRACE(std::string(isa.name) + " " + std::string(dtype_name(format)) + " " +
                       std::to_string(c.m) + " x " + std::to_string(c.n) + " x " + std::to_string(c.k) +
                       (extras ? " bias, residual" : ""));
          const TestTensor x = random_tensor(DType::kF32, {c.m, c.k}, 1, 3);
          const TestTensor w = random_tensor(DType::kF32, {c.n, c.k}, 2, 5);
          const TestTensor residual = random_tensor(DType::kF32, {c.m, c.n}, 3, 1);
          const TestTensor taken = as_rounded(isa, format, x);
          const TestTensor out(DType::kF32, {c.m, c.n}, 2);
          PackedLinear packed = pack(*isa.table, ctx, w, format);
          if (extras) packed.bias = make_bias(c.n);
          isa.table->run(
              ctx, ops::Linear{
                       .out = out, .x = x, .w = packed, .residual = extras ? residual.view() : TensorView{}});
          for (int64_t r = 0; r < c.m; ++r) {
            for (int64_t j = 0; j < c.n; ++j) {
              double sum = 0;
              double size = 0;
              for (int64_t i = 0; i < c.k; ++i) {
                const double term = double{taken.get(r, i)} * double{stored(w, format, j, i)};
                sum += term;
                size += std::fabs(term);
              }
              if (extras) sum += double{packed.bias.as<float>()[j]} + double{residual.get(r, j)};
              // Each addition has a rounding error of at most half an ulp of a partial sum.
              const double bound = (size + 4.0) * static_cast<double>(c.k + 2) * 6e-8;
              ASSERT_NEAR(out.get(r, j), sum, bound) << "row " << r << ", column " << j;
            }
            // Memory between rows is not written.
            for (int64_t i = c.n; i < out.view().row_stride; ++i) ASSERT_TRUE(std::isnan(out.get(r, i)));
          }
        }
      }
    }
  }
}

TEST(Linear, ResultsDoNotDependOnTheBatch) {
  for (const CpuIsa& isa : usable_isas()) {
    const TestContext ctx(*isa.table);
    for (const DType format : kStored) {
      const int64_t k = 523;
      const int64_t n = 167;
      const TestTensor x = random_tensor(DType::kF32, {70, k}, 4);
      const TestTensor w = random_tensor(DType::kBF16, {n, k}, 5);
      const PackedLinear packed = pack(*isa.table, ctx, w, format);
      const TestTensor alone(DType::kF32, {70, n});
      for (int64_t r = 0; r < 70; ++r) {
        isa.table->run(
            ctx, ops::Linear{.out = row_slice(alone, r, r + 1), .x = row_slice(x, r, r + 1), .w = packed});
      }
      for (int64_t m = 2; m <= 70; ++m) {
        const TestTensor out(DType::kF32, {m, n});
        isa.table->run(ctx, ops::Linear{.out = out, .x = row_slice(x, 70 - m, 70), .w = packed});
        for (int64_t r = 0; r < m; ++r) {
          ASSERT_TRUE(same_row(out, r, alone, 70 - m + r)) << isa.name << ", row " << r << " of " << m;
        }
      }
    }
  }
}

TEST(Linear, ResultsDoNotDependOnTheNumberOfThreads) {
  for (const CpuIsa& isa : usable_isas()) {
    for (const int64_t m : {1, 5, 9, 400}) {
      const TestTensor x = random_tensor(DType::kF32, {m, 256}, 6);
      const TestTensor w = random_tensor(DType::kF32, {320, 256}, 7);
      std::vector<TestTensor> outs;
      for (const int threads : {1, 2, 3}) {
        const TestContext ctx(*isa.table, threads);
        outs.emplace_back(DType::kF32, Shape{m, 320});
        isa.table->run(ctx,
                       ops::Linear{.out = outs.back(), .x = x, .w = pack(*isa.table, ctx, w, DType::kBF16)});
      }
      EXPECT_TRUE(same_rows(outs[0], outs[1])) << isa.name << ", m " << m;
      EXPECT_TRUE(same_rows(outs[0], outs[2])) << isa.name << ", m " << m;
    }
  }
}

// More rows than the workspace for rounded activations can hold.
TEST(Linear, ResultsDoNotDependOnTheWorkspace) {
  const int64_t m = 70;
  const int64_t k = 70001;
  const TestTensor x = random_tensor(DType::kF32, {m, k}, 20);
  const TestTensor w = random_tensor(DType::kBF16, {3, k}, 21);
  const TestTensor residual = random_tensor(DType::kF32, {m, 3}, 22);
  for (const CpuIsa& isa : fast_isas()) {
    const TestContext ctx(*isa.table, 2);
    const PackedLinear packed = pack(*isa.table, ctx, w, DType::kBF16);
    const TestTensor all(DType::kF32, {m, 3});
    isa.table->run(ctx, ops::Linear{.out = all, .x = x, .w = packed, .residual = residual});
    for (int64_t r = 0; r < m; ++r) {
      const TestTensor alone(DType::kF32, {1, 3});
      isa.table->run(ctx, ops::Linear{.out = alone,
                                      .x = row_slice(x, r, r + 1),
                                      .w = packed,
                                      .residual = row_slice(residual, r, r + 1)});
      ASSERT_TRUE(same_row(alone, 0, all, r)) << isa.name << ", row " << r;
    }
  }
}

TEST(Linear, PropagatesInfinityAndNan) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const CpuIsa& isa : usable_isas()) {
    const TestContext ctx(*isa.table);
    for (const DType format : kStored) {
      for (const int64_t k : {1, 33, 64}) {
        TestTensor x = random_tensor(DType::kF32, {3, k}, 23);
        TestTensor w(DType::kF32, {40, k});
        for (int64_t j = 0; j < 40; ++j) {
          for (int64_t i = 0; i < k; ++i) w.set(j, i, 1.0F);
        }
        x.set(0, k - 1, kInfinity);
        x.set(1, k - 1, -kInfinity);
        x.set(2, k - 1, test::kNaN);
        const TestTensor out(DType::kF32, {3, 40});
        isa.table->run(ctx, ops::Linear{.out = out, .x = x, .w = pack(*isa.table, ctx, w, format)});
        for (int64_t j = 0; j < 40; ++j) {
          ASSERT_EQ(out.get(0, j), kInfinity) << isa.name << " " << dtype_name(format) << ", k " << k;
          ASSERT_EQ(out.get(1, j), -kInfinity) << isa.name << " " << dtype_name(format) << ", k " << k;
          ASSERT_TRUE(std::isnan(out.get(2, j))) << isa.name << " " << dtype_name(format) << ", k " << k;
        }
      }
    }
  }
}

TEST(Linear, InstructionSetsGiveTheSameBits) {
  const std::vector<CpuIsa> isas = fast_isas();
  if (isas.size() < 2) GTEST_SKIP() << "this machine supports fewer than two levels above generic";
  for (const DType format : kStored) {
    for (const int64_t m : {1, 3, 17, 250}) {
      const TestTensor x = random_tensor(DType::kF32, {m, 300}, 8);
      const TestTensor w = random_tensor(DType::kF16, {75, 300}, 9);
      std::vector<TestTensor> outs;
      for (const CpuIsa& isa : isas) {
        if (rounds_activations(isa, format)) continue;
        const TestContext ctx(*isa.table);
        outs.emplace_back(DType::kF32, Shape{m, 75});
        isa.table->run(ctx, ops::Linear{.out = outs.back(), .x = x, .w = pack(*isa.table, ctx, w, format)});
      }
      for (size_t i = 1; i < outs.size(); ++i)
        EXPECT_TRUE(same_rows(outs[0], outs[i])) << isas[i].name << ", m " << m;
    }
  }
}

TEST(Linear, ResidualMayAliasTheOutput) {
  for (const CpuIsa& isa : usable_isas()) {
    for (const int64_t m : {1, 30}) {
      const TestContext ctx(*isa.table, 2);
      const TestTensor x = random_tensor(DType::kF32, {m, 400}, 10);
      const TestTensor w = random_tensor(DType::kF32, {70, 400}, 11);
      const PackedLinear packed = pack(*isa.table, ctx, w, DType::kF32);
      const TestTensor residual = random_tensor(DType::kF32, {m, 70}, 12);
      const TestTensor apart(DType::kF32, {m, 70});
      isa.table->run(ctx, ops::Linear{.out = apart, .x = x, .w = packed, .residual = residual});
      const TestTensor in_place = residual;
      isa.table->run(ctx, ops::Linear{.out = in_place, .x = x, .w = packed, .residual = in_place});
      EXPECT_TRUE(same_rows(apart, in_place)) << isa.name;
    }
  }
}

TEST(PackLinear, StacksPartsOfDifferentTypes) {
  for (const CpuIsa& isa : usable_isas()) {
    const TestContext ctx(*isa.table, 2);
    const int64_t k = 50;
    const TestTensor a = random_tensor(DType::kBF16, {20, k}, 13, 2);
    const TestTensor b = random_tensor(DType::kF32, {1, k}, 14);
    const TestTensor c = random_tensor(DType::kF16, {60, k}, 15);
    const std::vector<TensorView> parts = {a, b, c};
    const PackedLinear whole = isa.table->pack_linear(ctx, parts, WeightFormat{DType::kF32});
    EXPECT_EQ(whole.n, 81);
    EXPECT_EQ(whole.k, k);
    const TestTensor x = random_tensor(DType::kF32, {4, k}, 16);
    const TestTensor out(DType::kF32, {4, 81});
    isa.table->run(ctx, ops::Linear{.out = out, .x = x, .w = whole});
    int64_t column = 0;
    for (const TensorView& part : parts) {
      const TestTensor own(DType::kF32, {4, part.rows()});
      isa.table->run(ctx, ops::Linear{.out = own, .x = x, .w = pack(*isa.table, ctx, part, DType::kF32)});
      EXPECT_TRUE(same_rows(column_slice(out, column, column + part.rows()), own)) << isa.name;
      column += part.rows();
    }
  }
}

TEST(PackLinear, RejectsMismatchedParts) {
  const OpTable& table = reference_ops();
  const TestTensor a(DType::kF32, {4, 8});
  const TestTensor b(DType::kF32, {4, 9});
  const TestTensor ints(DType::kI32, {4, 8});
  const std::vector<TensorView> unequal = {a, b};
  const std::vector<TensorView> wrong = {ints};
  const std::vector<TensorView> good = {a};
  EXPECT_THROW(table.pack_linear({}, unequal, WeightFormat{}), Error);
  EXPECT_THROW(table.pack_linear({}, wrong, WeightFormat{}), Error);
  EXPECT_THROW(table.pack_linear({}, {}, WeightFormat{}), Error);
  EXPECT_THROW(table.pack_linear({}, good, WeightFormat{DType::kI32}), Error);
}

TEST(Embedding, ReturnsTheRowsExactly) {
  const std::vector<int32_t> ids = {0, 36, 5, 5, 31, 32};
  for (const CpuIsa& isa : usable_isas()) {
    for (const DType dtype : kStored) {
      for (const int64_t d : {1, 16, 37, 128, 600}) {
        const TestContext ctx(*isa.table, 2);
        const TestTensor table = random_tensor(dtype, {37, d}, 17, 3);
        const auto count = static_cast<int64_t>(ids.size());
        const TestTensor out(DType::kF32, {count, d}, 1);
        const TestTensor packed_out(DType::kF32, {count, d}, 1);
        isa.table->run(ctx, ops::Embedding{.out = out, .table = table, .ids = ids});
        isa.table->run(ctx, ops::PackedEmbedding{
                                .out = packed_out, .table = pack(*isa.table, ctx, table, dtype), .ids = ids});
        for (int64_t r = 0; r < count; ++r) {
          for (int64_t i = 0; i < d; ++i) {
            ASSERT_EQ(out.get(r, i), table.get(ids[static_cast<size_t>(r)], i))
                << isa.name << " " << dtype_name(dtype);
            ASSERT_EQ(packed_out.get(r, i), out.get(r, i)) << isa.name << " " << dtype_name(dtype);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
