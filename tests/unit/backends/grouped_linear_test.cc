// Products with several matrices: every row has the bits of a product with its matrix alone, for any
// format, level, number of threads and size of the groups.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "op_testing.h"
#include "ops/reference.h"
#include "unit/quantized_testing.h"

namespace quire {
namespace {

using test::random_tensor;
using test::RandomCodes;
using test::same_rows;
using test::TestContext;
using test::TestTensor;
using test::usable_isas;

// Rows for each matrix: none, one, some blocks of rows, and more than share a loop.
constexpr std::array<int32_t, 8> kGroupSizes = {1, 0, 2, 13, 47, 48, 1, 60};
constexpr int32_t kTerms = 172;
constexpr int64_t kK = 136;  // 4 groups of 32 and a part

struct Format {
  std::string name;
  // Packs a matrix [n, kK] for a table.
  std::function<PackedLinear(const OpTable& table, int64_t n, uint32_t seed)> pack;
};

Format rounded(std::string name, WeightFormat format) {
  return {std::move(name), [format](const OpTable& table, int64_t n, uint32_t seed) {
            const TestTensor w = random_tensor(DType::kBF16, {n, kK}, seed);
            const std::vector<TensorView> parts = {w};
            return table.pack_linear({}, parts, format);
          }};
}

Format quantized(std::string name, QuantFormat format, ActivationFormat activations, bool special = false) {
  return {std::move(name), [=](const OpTable& table, int64_t n, uint32_t seed) {
            std::vector<int32_t> order(kK);
            std::iota(order.rbegin(), order.rend(), 0);
            RandomCodes codes(format, n, kK, seed, special ? order : std::vector<int32_t>{});
            if (special) codes.add_outliers(seed);
            const std::array<const QuantizedMatrix*, 1> parts = {&codes};
            PackedLinear packed = table.pack_quantized({}, parts);
            packed.format.activations = activations;
            return packed;
          }};
}

std::vector<Format> all_formats() {
  const WeightFormat int4 = {.dtype = DType::kI8,
                             .code_bits = 4,
                             .group_size = 64,
                             .activations = ActivationFormat::kInt8,
                             .activation_group = 64};
  WeightFormat two_levels = int4;
  two_levels.second_level_group = 32;
  WeightFormat floats = int4;
  floats.activations = ActivationFormat::kFloat;
  floats.activation_group = 0;
  const QuantFormat linear = {.code_bits = 4, .group_size = 32, .block_size = 32, .minima = true};
  const QuantFormat rows = {
      .code_bits = 4, .group_size = 0, .block_size = 0, .values = CodeValues::kRowTable};
  return {rounded("float32", {.dtype = DType::kF32}),
          rounded("bfloat16", {.dtype = DType::kBF16}),
          rounded("float16", {.dtype = DType::kF16}),
          rounded("int4", int4),
          rounded("int4 with two levels", two_levels),
          rounded("int4 with float activations", floats),
          quantized("codes", linear, ActivationFormat::kInt8),
          quantized("codes with slices", linear, ActivationFormat::kInt16),
          quantized("codes with float activations", linear, ActivationFormat::kFloat),
          quantized("row tables", rows, ActivationFormat::kFloat),
          quantized("outliers and an order of columns", linear, ActivationFormat::kInt8, true)};
}

void add_bias(PackedLinear& packed, uint32_t seed) {
  const TestTensor bias = random_tensor(DType::kF32, {1, packed.n}, seed);
  packed.bias = Buffer(static_cast<size_t>(packed.n) * sizeof(float));
  std::memcpy(packed.bias.data(), bias.view().data, packed.bias.size());
}

std::vector<int32_t> offsets() {
  std::vector<int32_t> all = {0};
  for (const int32_t size : kGroupSizes) all.push_back(all.back() + size);
  return all;
}

// Each term is computed alone by Linear, and compared with its row of GroupedLinear.
void check_grouped(const OpTable& table, const TestContext& ctx,
                   std::span<const PackedLinear* const> matrices, const std::vector<int32_t>& rows) {
  const PackedLinear& any = *first_matrix(matrices);
  const TestTensor x = random_tensor(DType::kF32, {rows.empty() ? kTerms : 9, kK}, 7, 3);
  const TestTensor out(DType::kF32, {kTerms + 2, any.out_columns()}, 1);
  const std::vector<int32_t> bounds = offsets();
  checked(table).run(
      ctx, ops::GroupedLinear{.out = out, .x = x, .matrices = matrices, .offsets = bounds, .rows = rows});
  const TestTensor want(DType::kF32, {kTerms + 2, any.out_columns()}, 1);
  for (size_t g = 0; g < matrices.size(); ++g) {
    for (int32_t t = bounds[g]; matrices[g] != nullptr && t < bounds[g + 1]; ++t) {
      const int32_t row = rows.empty() ? t : rows[static_cast<size_t>(t)];
      table.run(
          ctx,
          ops::Linear{.out = row_slice(want, t, t + 1), .x = row_slice(x, row, row + 1), .w = *matrices[g]});
    }
  }
  ASSERT_TRUE(same_rows(out, want));  // rows without a product keep their NaN
}

class GroupedLinear : public testing::TestWithParam<size_t> {};

TEST_P(GroupedLinear, RowsHaveTheBitsOfProductsWithTheirMatrixAlone) {
  const Format format = all_formats()[GetParam()];
  std::vector<int32_t> rows(kTerms);
  for (size_t t = 0; t < rows.size(); ++t) rows[t] = static_cast<int32_t>(t * 5 % 9);
  for (const CpuIsa& isa : usable_isas()) {
    SCOPED_TRACE(format.name + ", " + std::string(isa.name));
    for (const bool gated : {false, true}) {
      std::vector<PackedLinear> packed;
      for (uint32_t g = 0; g < kGroupSizes.size(); ++g) {
        packed.push_back(format.pack(*isa.table, gated ? 128 : 70, g));
        if (g % 2 == 0) add_bias(packed.back(), g);
        if (gated && can_gate(packed.back())) packed.back().gate = Activation::kSilu;
      }
      std::vector<const PackedLinear*> matrices;
      for (const PackedLinear& w : packed) matrices.push_back(&w);
      matrices[3] = nullptr;
      const TestContext two(*isa.table, 2);
      ASSERT_NO_FATAL_FAILURE(check_grouped(*isa.table, two, matrices, rows));
      ASSERT_NO_FATAL_FAILURE(check_grouped(*isa.table, two, matrices, {}));
      // Too little workspace for all products at a time.
      OpContext small = two.ctx();
      small.workspace = small.workspace.first(40000);
      const TestTensor x = random_tensor(DType::kF32, {9, kK}, 7, 3);
      const std::vector<int32_t> bounds = offsets();
      const TestTensor out(DType::kF32, {kTerms, packed[0].out_columns()});
      const TestTensor out_small(DType::kF32, {kTerms, packed[0].out_columns()});
      ops::GroupedLinear op = {.out = out, .x = x, .matrices = matrices, .offsets = bounds, .rows = rows};
      isa.table->run(two, op);
      op.out = out_small;
      isa.table->run(small, op);
      ASSERT_TRUE(same_rows(out, out_small));
    }
  }
}

TEST_P(GroupedLinear, BatchedProductsHaveTheBitsOfSingleOnes) {
  const Format format = all_formats()[GetParam()];
  constexpr int64_t kHeads = 3;
  constexpr int64_t kN = 40;
  for (const CpuIsa& isa : usable_isas()) {
    SCOPED_TRACE(format.name + ", " + std::string(isa.name));
    std::vector<PackedLinear> packed;
    for (uint32_t h = 0; h < kHeads; ++h) packed.push_back(format.pack(*isa.table, kN, h));
    const std::vector<const PackedLinear*> matrices = {packed.data(), packed.data() + 1, packed.data() + 2};
    const TestContext ctx(*isa.table, 2);
    for (const int64_t m : {0, 1, 14, 50}) {
      const TestTensor x = random_tensor(DType::kF32, {m, kHeads * kK}, 7, 3);
      const TestTensor out(DType::kF32, {m, kHeads * kN}, 1);
      const TestTensor want(DType::kF32, {m, kHeads * kN}, 1);
      checked(*isa.table).run(ctx, ops::BatchedLinear{.out = out, .x = x, .matrices = matrices});
      for (int64_t h = 0; h < kHeads; ++h) {
        isa.table->run(ctx, ops::Linear{.out = column_slice(want, h * kN, (h + 1) * kN),
                                        .x = column_slice(x, h * kK, (h + 1) * kK),
                                        .w = packed[static_cast<size_t>(h)]});
      }
      ASSERT_TRUE(same_rows(out, want)) << m << " rows";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, GroupedLinear, testing::Range(size_t{0}, all_formats().size()));

TEST(OrderHeads, PutsTheHeadsOfAKvHeadNextToEachOtherAndBack) {
  // Two rows with two experts each, two KV heads of one number.
  const std::vector<int32_t> positions = {3, 0, 1, 2};
  const TestTensor terms(DType::kF32, {4, 2, 1});
  for (int64_t t = 0; t < 4; ++t) {
    for (int64_t h = 0; h < 2; ++h) terms.view().row<float>(t)[h] = static_cast<float>(10 * t + h);
  }
  for (const CpuIsa& isa : usable_isas()) {
    const TestContext ctx(*isa.table, 2);
    const TestTensor rows(DType::kF32, {2, 4, 1});
    isa.table->run(ctx, ops::OrderHeads{.rows = rows, .terms = terms, .positions = positions});
    const std::array<float, 8> want = {30, 0, 31, 1, 10, 20, 11, 21};
    for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(rows.get(i / 4, i % 4), want[static_cast<size_t>(i)]) << i;
    const TestTensor back(DType::kF32, {4, 2, 1});
    isa.table->run(ctx,
                   ops::OrderHeads{.rows = rows, .terms = back, .positions = positions, .to_terms = true});
    EXPECT_TRUE(same_rows(back, terms));
  }
}

}  // namespace
}  // namespace quire
