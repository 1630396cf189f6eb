// Gated products (gates stacked on ups) apply the activation themselves and give the same bits as a separate
// activation op.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "op_testing.h"
#include "quant/code_tables.h"
#include "support/sanitizers.h"
#include "unit/quantized_testing.h"

namespace quire {
namespace {

using test::random_tensor;
using test::RandomCodes;
using test::same_rows;
using test::TestContext;
using test::TestTensor;
using test::usable_isas;

constexpr int64_t kIntermediate = 160;
constexpr int64_t kInputs = 264;

WeightFormat gated_format(int32_t bits, int32_t group, ActivationFormat activations,
                          bool zero_points = false) {
  return {.dtype = DType::kI8,
          .code_bits = bits,
          .group_size = group,
          .zero_points = zero_points,
          .activations = activations,
          .activation_group = activations == ActivationFormat::kInt8 ? 64 : 0};
}

// One matrix for each kind of product.
std::vector<std::pair<std::string, PackedLinear>> matrices(const OpTable& table) {
  std::vector<std::pair<std::string, PackedLinear>> all;
  const TestTensor w = random_tensor(DType::kBF16, {2 * kIntermediate, kInputs}, 5);
  const std::vector<TensorView> parts = {row_slice(w, 0, kIntermediate),
                                         row_slice(w, kIntermediate, 2 * kIntermediate)};
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    all.emplace_back(dtype_name(dtype), table.pack_linear({}, parts, WeightFormat{dtype}));
  for (const auto activations : {ActivationFormat::kInt8, ActivationFormat::kFloat}) {
    const std::string with =
        activations == ActivationFormat::kInt8 ? " with int8 activations" : " with float activations";
    const auto add = [&](const std::string& name, const WeightFormat& format) {
      all.emplace_back(name + with, table.pack_linear({}, parts, format));
    };
    add("int8", gated_format(8, 0, activations));
    add("int8 with groups", gated_format(8, 32, activations));
    add("int4", gated_format(4, 32, activations));
    add("int4 with zero points", gated_format(4, 64, activations, true));
    RandomCodes codes({.code_bits = 4, .group_size = 32, .block_size = 256, .zero_point = 8, .minima = true},
                      2 * kIntermediate, kInputs, 7);
    const std::array<const QuantizedMatrix*, 1> quantized = {&codes};
    all.emplace_back("codes" + with, table.pack_quantized({}, quantized)).second.format.activations =
        activations;
  }
  WeightFormat two_level = gated_format(4, 64, ActivationFormat::kInt8);
  two_level.second_level_group = 32;
  all.emplace_back("int4 with second-level scales", table.pack_linear({}, parts, two_level));
  RandomCodes floats({.code_bits = 8,
                      .group_size = 128,
                      .block_size = 128,
                      .values = CodeValues::kTable,
                      .table = e4m3_values()},
                     2 * kIntermediate, kInputs, 8);
  const std::array<const QuantizedMatrix*, 1> quantized = {&floats};
  all.emplace_back("8-bit floats", table.pack_quantized({}, quantized));
  return all;
}

TEST(LinearGated, HasTheBitsOfASeparateActivation) {
  const TestTensor bias = random_tensor(DType::kF32, {1, 2 * kIntermediate}, 4);
  for (const CpuIsa& isa : usable_isas()) {
    for (auto& [name, packed] : matrices(*isa.table)) {
      for (const int64_t m : {1, 2, 5, 13, 50, test::repetitions(230, 70)}) {
        if (test::kSanitizer && (m == 2 || m == 50)) continue;
        for (const auto& [act, biased] :
             {std::pair(Activation::kSilu, false), {Activation::kGeluTanh, true}}) {
          SCOPED_TRACE(std::string(isa.name) + ", " + name + ", " + std::to_string(m) + " rows" +
                       (biased ? ", biased" : ""));
          const TestContext ctx(*isa.table, m % 2 == 0 ? 1 : 2);
          packed.bias = Buffer(biased ? static_cast<size_t>(2 * kIntermediate) * sizeof(float) : 0);
          if (biased) std::memcpy(packed.bias.data(), bias.view().data, packed.bias.size());
          const TestTensor x = random_tensor(DType::kF32, {m, kInputs}, 1, 3);
          const TestTensor sums(DType::kF32, {m, 2 * kIntermediate});
          const TestTensor want(DType::kF32, {m, kIntermediate});
          packed.gate = std::nullopt;
          isa.table->run(ctx, ops::Linear{.out = sums, .x = x, .w = packed});
          isa.table->run(ctx, ops::GatedActivation{.out = want, .gate_up = sums, .activation = act});
          const TestTensor out(DType::kF32, {m, kIntermediate}, 2);
          packed.gate = act;
          isa.table->run(ctx, ops::Linear{.out = out, .x = x, .w = packed});
          ASSERT_TRUE(same_rows(out, want));
        }
      }
    }
  }
}

// Experts, whose terms are of a few rows and of many.
TEST(LinearGated, GroupsHaveTheBitsOfASeparateActivation) {
  const std::vector<int32_t> offsets = {0, 1, 1, 60};
  const std::vector<int32_t> rows = [] {
    std::vector<int32_t> ascending(60);
    std::iota(ascending.begin() + 1, ascending.end(), 0);
    return ascending;
  }();
  const TestTensor x = random_tensor(DType::kF32, {59, kInputs}, 1, 3);
  for (const CpuIsa& isa : usable_isas()) {
    for (auto& [name, packed] : matrices(*isa.table)) {
      SCOPED_TRACE(std::string(isa.name) + ", " + name);
      const TestContext ctx(*isa.table, 2);
      const PackedLinear plain = without_gate(packed);
      const std::array<const PackedLinear*, 3> without = {&plain, &plain, &plain};
      const TestTensor sums(DType::kF32, {60, 2 * kIntermediate});
      const TestTensor want(DType::kF32, {60, kIntermediate});
      isa.table->run(ctx, ops::GroupedLinear{
                              .out = sums, .x = x, .matrices = without, .offsets = offsets, .rows = rows});
      isa.table->run(ctx,
                     ops::GatedActivation{.out = want, .gate_up = sums, .activation = Activation::kSilu});
      packed.gate = Activation::kSilu;
      const std::array<const PackedLinear*, 3> gated = {&packed, &packed, &packed};
      const TestTensor out(DType::kF32, {60, kIntermediate}, 2);
      isa.table->run(
          ctx, ops::GroupedLinear{.out = out, .x = x, .matrices = gated, .offsets = offsets, .rows = rows});
      ASSERT_TRUE(same_rows(out, want));
    }
  }
}

}  // namespace
}  // namespace quire
