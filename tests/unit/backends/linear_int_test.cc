// Products with integer weights: every level gives the same bits as the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "op_testing.h"
#include "ops/reference.h"
#include "quant/int_layout.h"

namespace quire {
namespace {

using test::fast_isas;
using test::kNaN;
using test::random_tensor;
using test::same_row;
using test::same_rows;
using test::TestContext;
using test::TestTensor;
using test::usable_isas;

WeightFormat int_format(int32_t bits, int32_t group, int32_t activation_group, bool zero_points = false) {
  return {.dtype = DType::kI8,
          .code_bits = bits,
          .group_size = group,
          .zero_points = zero_points,
          .activations = ActivationFormat::kInt8,
          .activation_group = activation_group};
}

WeightFormat with_two_levels(WeightFormat format, int32_t second_level_group) {
  format.second_level_group = second_level_group;
  return format;
}

WeightFormat with_float_activations(WeightFormat format) {
  format.activations = ActivationFormat::kFloat;
  format.activation_group = 0;
  return format;
}

std::vector<WeightFormat> int_formats() {
  std::vector<WeightFormat> all = {
      int_format(8, 0, 128),      int_format(8, 0, 0),    int_format(8, 0, 32),   int_format(8, 32, 32),
      int_format(8, 128, 0),      int_format(4, 64, 64),  int_format(4, 32, 32),  int_format(4, 128, 128),
      int_format(4, 0, 128),      int_format(4, 128, 64), int_format(4, 32, 128), int_format(4, 64, 64, true),
      int_format(4, 128, 0, true)};
  const size_t whole = all.size();
  for (const auto& [group, activation_group, second_level_group] :
       {std::array{128, 128, 32}, {128, 0, 32}, {256, 256, 32}, {64, 128, 16}, {32, 32, 32}})
    all.push_back(with_two_levels(int_format(4, group, activation_group), second_level_group));
  for (size_t i = 0; i < whole; ++i) {
    const WeightFormat floats = with_float_activations(all[i]);
    if (std::find(all.begin(), all.end(), floats) == all.end()) all.push_back(floats);
  }
  return all;
}

std::string describe(const WeightFormat& f) {
  return std::to_string(f.code_bits) + " bits, groups of " + std::to_string(f.group_size) +
         (f.zero_points ? " with zero points" : "") +
         (f.second_level_group > 0 ? " with second-level groups of " + std::to_string(f.second_level_group)
                                   : "") +
         (f.activations == ActivationFormat::kFloat
              ? ", float activations"
              : ", activation groups of " + std::to_string(f.activation_group));
}

PackedLinear pack(const OpTable& table, const TensorView& w, const WeightFormat& format) {
  const std::vector<TensorView> parts = {w};
  return table.pack_linear({}, parts, format);
}

bool same_bytes(const Buffer& a, const Buffer& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size()) == 0;
}

struct IntCase {
  int64_t m, n, k;
};
constexpr IntCase kIntCases[] = {{1, 1, 1},     {1, 33, 7},    {2, 32, 100},  {3, 100, 65},  {5, 31, 128},
                                 {13, 64, 64},  {7, 257, 33},  {12, 96, 300}, {1, 40, 576},  {26, 130, 700},
                                 {70, 33, 140}, {1, 31, 1000}, {17, 32, 96},  {33, 31, 600}, {300, 33, 72}};

TEST(LinearInt, AllLevelsGiveTheBitsOfTheReference) {
  const OpTable& plain = reference_ops();
  const TestContext plain_context(plain);
  for (const WeightFormat& format : int_formats()) {
    for (const IntCase& c : kIntCases) {
      const TestTensor x = random_tensor(DType::kF32, {c.m, c.k}, 1, 3);
      const TestTensor w = random_tensor(DType::kBF16, {c.n, c.k}, 2, 5);
      const TestTensor residual = random_tensor(DType::kF32, {c.m, c.n}, 3, 1);
      const TestTensor bias = random_tensor(DType::kF32, {1, c.n}, 4);
      PackedLinear expected = pack(plain, w, format);
      const TestTensor want(DType::kF32, {c.m, c.n});
      const TestTensor want_more(DType::kF32, {c.m, c.n});
      const auto add_bias = [&](PackedLinear& packed) {
        packed.bias = Buffer(static_cast<size_t>(c.n) * sizeof(float));
        std::memcpy(packed.bias.data(), bias.view().data, packed.bias.size());
      };
      plain.run(plain_context, ops::Linear{.out = want, .x = x, .w = expected});
      add_bias(expected);
      plain.run(plain_context, ops::Linear{.out = want_more, .x = x, .w = expected, .residual = residual});
      for (const CpuIsa& isa : fast_isas()) {
        SCOPED_TRACE(std::string(isa.name) + ", " + describe(format) + ", " + std::to_string(c.m) + " x " +
                     std::to_string(c.n) + " x " + std::to_string(c.k));
        const TestContext ctx(*isa.table, 2);
        PackedLinear packed = pack(*isa.table, w, format);
        ASSERT_TRUE(same_bytes(packed.data, expected.data));
        const TestTensor out(DType::kF32, {c.m, c.n}, 2);
        isa.table->run(ctx, ops::Linear{.out = out, .x = x, .w = packed});
        ASSERT_TRUE(same_rows(out, want));
        OpContext other = ctx;
        other.tuning.prefetch_into_l2 = !other.tuning.prefetch_into_l2;
        isa.table->run(other, ops::Linear{.out = out, .x = x, .w = packed});
        ASSERT_TRUE(same_rows(out, want));
        for (int64_t r = 0; r < c.m; ++r) {
          for (int64_t i = c.n; i < out.view().row_stride; ++i) ASSERT_TRUE(std::isnan(out.get(r, i)));
        }
        add_bias(packed);
        isa.table->run(ctx, ops::Linear{.out = out, .x = x, .w = packed, .residual = residual});
        ASSERT_TRUE(same_rows(out, want_more));
      }
    }
  }
}

TEST(LinearInt, MultipliesRoundedWeightsAndActivations) {
  const int64_t m = 6;
  const int64_t n = 70;
  const int64_t k = 200;
  const TestTensor x = random_tensor(DType::kF32, {m, k}, 5);
  const TestTensor w = random_tensor(DType::kF32, {n, k}, 6);
  const OpTable& table = *select_cpu_isa().table;
  const TestContext ctx(table);
  for (const WeightFormat& format : int_formats()) {
    SCOPED_TRACE(describe(format));
    const PackedLinear packed = pack(table, w, format);
    const IntLayout at(format, k);
    const TestTensor out(DType::kF32, {m, n});
    table.run(ctx, ops::Linear{.out = out, .x = x, .w = packed});
    std::vector<float> weights(static_cast<size_t>(k));
    for (int64_t j = 0; j < n; ++j) {
      decode_int_row(at, packed.data.data(), j, weights.data());
      for (int64_t r = 0; r < m; ++r) {
        double sum = 0;
        double slack = 1e-4;
        for (int64_t begin = 0; begin < k; begin += at.activation_group) {
          const int64_t end = std::min(k, begin + at.activation_group);
          float largest = 0;
          for (int64_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(x.get(r, i)));
          for (int64_t i = begin; i < end; ++i) {
            const auto weight = double{weights[static_cast<size_t>(i)]};
            sum += double{x.get(r, i)} * weight;
            // The rounding error of an activation is at most half a quantization step.
            if (format.activations == ActivationFormat::kInt8) slack += largest / 254.0 * std::fabs(weight);
          }
        }
        ASSERT_NEAR(out.get(r, j), sum, slack) << "row " << r << ", column " << j;
      }
    }
  }
}

TEST(LinearInt, ResultsDoNotDependOnTheBatch) {
  const int64_t k = 523;
  const int64_t n = 167;
  const TestTensor x = random_tensor(DType::kF32, {70, k}, 7);
  const TestTensor w = random_tensor(DType::kBF16, {n, k}, 8);
  for (const CpuIsa& isa : fast_isas()) {
    for (const WeightFormat& format :
         {int_format(8, 0, 128), int_format(4, 64, 64), with_two_levels(int_format(4, 128, 128), 32),
          int_format(8, 0, 0), with_float_activations(int_format(4, 32, 32))}) {
      SCOPED_TRACE(std::string(isa.name) + ", " + describe(format));
      const PackedLinear packed = pack(*isa.table, w, format);
      const TestContext ctx(*isa.table);
      const TestContext threads(*isa.table, 3);
      const TestTensor alone(DType::kF32, {70, n});
      for (int64_t r = 0; r < 70; ++r)
        isa.table->run(
            ctx, ops::Linear{.out = row_slice(alone, r, r + 1), .x = row_slice(x, r, r + 1), .w = packed});
      for (int64_t m = 2; m <= 70; ++m) {
        const TestTensor out(DType::kF32, {m, n});
        isa.table->run(m % 2 == 0 ? ctx : threads,
                       ops::Linear{.out = out, .x = row_slice(x, 70 - m, 70), .w = packed});
        for (int64_t r = 0; r < m; ++r) ASSERT_TRUE(same_row(out, r, alone, 70 - m + r)) << r << " of " << m;
      }
    }
  }
}

TEST(LinearInt, SmallWorkspacesProcessRowsInParts) {
  const int64_t k = 256;
  const TestTensor x = random_tensor(DType::kF32, {50, k}, 9);
  const TestTensor w = random_tensor(DType::kF32, {64, k}, 10);
  for (const CpuIsa& isa : usable_isas()) {
    const PackedLinear packed = pack(*isa.table, w, int_format(8, 0, 128));
    const TestTensor want(DType::kF32, {50, 64});
    isa.table->run(TestContext(*isa.table), ops::Linear{.out = want, .x = x, .w = packed});
    std::vector<std::byte> room(64 + 7 * (256 + 16) + 1);
    const TestTensor out(DType::kF32, {50, 64});
    isa.table->run({nullptr, room}, ops::Linear{.out = out, .x = x, .w = packed});
    EXPECT_TRUE(same_rows(out, want)) << isa.name;
    std::vector<std::byte> none(64);
    EXPECT_THROW(isa.table->run({nullptr, none}, ops::Linear{.out = out, .x = x, .w = packed}), Error)
        << isa.name;
  }
}

TEST(LinearInt, NonFiniteActivationsGiveNanInTheirRowOnly) {
  const int64_t k = 300;
  TestTensor x = random_tensor(DType::kF32, {5, k}, 11);
  const TestTensor w = random_tensor(DType::kF32, {40, k}, 12);
  for (const CpuIsa& isa : usable_isas()) {
    for (const WeightFormat& format : {int_format(8, 0, 128), int_format(8, 0, 0), int_format(4, 64, 64),
                                       with_two_levels(int_format(4, 128, 128), 32)}) {
      const TestContext ctx(*isa.table);
      const PackedLinear packed = pack(*isa.table, w, format);
      const TestTensor want(DType::kF32, {5, 40});
      isa.table->run(ctx, ops::Linear{.out = want, .x = x, .w = packed});
      TestTensor broken = x;
      broken.set(1, 299, kNaN);
      broken.set(3, 0, std::numeric_limits<float>::infinity());
      for (int64_t i = 0; i < k; ++i) broken.set(4, i, 0.0F);
      const TestTensor out(DType::kF32, {5, 40});
      isa.table->run(ctx, ops::Linear{.out = out, .x = broken, .w = packed});
      EXPECT_TRUE(same_row(out, 0, want, 0)) << isa.name;
      EXPECT_TRUE(same_row(out, 2, want, 2)) << isa.name;
      for (int64_t j = 0; j < 40; ++j) {
        EXPECT_TRUE(std::isnan(out.get(1, j))) << isa.name;
        EXPECT_TRUE(std::isnan(out.get(3, j))) << isa.name;
        EXPECT_EQ(out.get(4, j), 0.0F) << isa.name;
      }
    }
  }
}

TEST(LinearInt, AllLevelsPackExtremeWeightsToTheSameBytes) {
  const int64_t k = 96;
  TestTensor w = random_tensor(DType::kF32, {40, k}, 13);
  for (int64_t i = 0; i < k; ++i) {
    w.set(0, i, 0.0F);
    w.set(1, i, 1e-30F * w.get(1, i));  // smaller than the smallest float16 scale
    w.set(2, i, 1e30F * w.get(2, i));
    w.set(3, i, std::fabs(w.get(3, i)));
    w.set(4, i, -1.0F);
    w.set(5, i, i == 7 ? 1000.0F : w.get(5, i));
    w.set(6, i, 1e-40F);
  }
  for (const WeightFormat& format : int_formats()) {
    const PackedLinear want = pack(reference_ops(), w, format);
    for (const CpuIsa& isa : fast_isas())
      EXPECT_TRUE(same_bytes(pack(*isa.table, w, format).data, want.data))
          << isa.name << ", " << describe(format);
  }
}

TEST(LinearInt, NonFiniteWeightsGiveNanInTheirColumnOnly) {
  TestTensor w = random_tensor(DType::kF32, {40, 128}, 14);
  const TestTensor x = random_tensor(DType::kF32, {2, 128}, 15);
  for (const CpuIsa& isa : usable_isas()) {
    for (const WeightFormat& format : int_formats()) {
      TestTensor broken = w;
      broken.set(3, 70, kNaN);
      broken.set(35, 1, -std::numeric_limits<float>::infinity());
      const TestContext ctx(*isa.table);
      const TestTensor want(DType::kF32, {2, 40});
      const TestTensor out(DType::kF32, {2, 40});
      isa.table->run(ctx, ops::Linear{.out = want, .x = x, .w = pack(*isa.table, w, format)});
      isa.table->run(ctx, ops::Linear{.out = out, .x = x, .w = pack(*isa.table, broken, format)});
      for (int64_t j = 0; j < 40; ++j) {
        if (j == 3 || j == 35) {
          EXPECT_TRUE(std::isnan(out.get(0, j))) << isa.name << ", " << describe(format);
        } else {
          EXPECT_EQ(out.get(0, j), want.get(0, j)) << isa.name << ", " << describe(format);
        }
      }
    }
  }
}

TEST(LinearInt, EmbeddingReturnsDecodedRows) {
  const TestTensor w = random_tensor(DType::kBF16, {70, 100}, 16);
  const std::vector<int32_t> ids = {69, 0, 31, 32, 5};
  for (const CpuIsa& isa : usable_isas()) {
    for (const WeightFormat& format : int_formats()) {
      const PackedLinear packed = pack(*isa.table, w, format);
      const TestTensor out(DType::kF32, {5, 100});
      isa.table->run(TestContext(*isa.table, 2),
                     ops::PackedEmbedding{.out = out, .table = packed, .ids = ids});
      std::vector<float> want(100);
      for (int64_t r = 0; r < 5; ++r) {
        decode_int_row(IntLayout(format, 100), packed.data.data(), ids[static_cast<size_t>(r)], want.data());
        for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(out.get(r, i), want[static_cast<size_t>(i)]) << isa.name;
      }
    }
  }
}

TEST(LinearInt, StackedPartsArePackedIndependently) {
  const TestTensor a = random_tensor(DType::kBF16, {20, 64}, 17);
  const TestTensor b = random_tensor(DType::kF32, {1, 64}, 18);
  const TestTensor c = random_tensor(DType::kF16, {60, 64}, 19);
  const TestTensor x = random_tensor(DType::kF32, {3, 64}, 20);
  const WeightFormat format = int_format(4, 32, 32);
  for (const CpuIsa& isa : usable_isas()) {
    const TestContext ctx(*isa.table, 2);
    const std::vector<TensorView> parts = {a, b, c};
    const TestTensor whole(DType::kF32, {3, 81});
    isa.table->run(ctx, ops::Linear{.out = whole, .x = x, .w = isa.table->pack_linear(ctx, parts, format)});
    int64_t column = 0;
    for (const TensorView& part : parts) {
      const TestTensor own(DType::kF32, {3, part.rows()});
      isa.table->run(ctx, ops::Linear{.out = own, .x = x, .w = pack(*isa.table, part, format)});
      EXPECT_TRUE(same_rows(column_slice(whole, column, column + part.rows()), own)) << isa.name;
      column += part.rows();
    }
  }
}

}  // namespace
}  // namespace quire
