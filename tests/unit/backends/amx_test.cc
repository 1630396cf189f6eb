// The AMX kernels, emulated, on any machine with AVX512-BF16. linear_test covers them on machines with AMX.
#include <cmath>

#include "amx_emulated.h"
#include "backends/cpu/cpu_features.h"
#include "backends/cpu/drivers.h"
#include "op_testing.h"

namespace quire {
namespace {

using test::random_tensor;
using test::same_row;
using test::TestContext;
using test::TestTensor;

cpu::CpuKernels emulated_kernels() {
  cpu::CpuKernels kernels{};
  cpu::fill_avx2(kernels);
  cpu::fill_avx512(kernels);
  cpu::fill_avx512_vnni(kernels);
  cpu::fill_avx512_bf16(kernels);
  cpu::fill_amx_emulated(kernels);
  return kernels;
}

TEST(AmxLinear, MatchesFloat64WithinRoundingForAnyBatch) {
  if (!cpu_features().avx512_bf16) GTEST_SKIP() << "this machine has no AVX512-BF16";
  const cpu::CpuKernels kernels = emulated_kernels();
  struct Case {
    int64_t m, n, k;
  };
  for (const Case& c :
       {Case{1, 32, 32}, Case{1, 1, 1}, Case{3, 33, 7}, Case{16, 64, 64}, Case{17, 96, 100},
        Case{32, 40, 512}, Case{33, 31, 65}, Case{47, 70, 33}, Case{65, 32, 128}, Case{200, 65, 140}}) {
    SCOPED_TRACE(std::to_string(c.m) + " x " + std::to_string(c.n) + " x " + std::to_string(c.k));
    const OpTable& rows_of = *select_cpu_isa("avx512_bf16").table;
    const TestContext ctx(rows_of, 2);
    TestTensor x = random_tensor(DType::kF32, {c.m, c.k}, 1, 3);
    for (int64_t r = 0; r < c.m; ++r) {
      for (int64_t i = 0; i < c.k; ++i) x.set(r, i, bf16_to_f32(f32_to_bf16(x.get(r, i))));
    }
    const TestTensor w = random_tensor(DType::kBF16, {c.n, c.k}, 2, 5);
    const TestTensor residual = random_tensor(DType::kF32, {c.m, c.n}, 3, 1);
    const std::vector<TensorView> parts = {w};
    const PackedLinear packed = cpu::pack_linear(kernels, ctx, parts, WeightFormat{DType::kBF16});
    const TestTensor out(DType::kF32, {c.m, c.n}, 2);
    cpu::run(kernels, ctx, ops::Linear{.out = out, .x = x, .w = packed, .residual = residual});
    for (int64_t r = 0; r < c.m; ++r) {
      for (int64_t j = 0; j < c.n; ++j) {
        double sum = double{residual.get(r, j)};
        double size = 4.0;
        for (int64_t i = 0; i < c.k; ++i) {
          const double term = double{x.get(r, i)} * double{w.get(j, i)};
          sum += term;
          size += std::fabs(term);
        }
        ASSERT_NEAR(out.get(r, j), sum, size * static_cast<double>(c.k + 2) * 6e-8)
            << "row " << r << ", column " << j;
      }
    }
    for (const int64_t r : {int64_t{0}, c.m / 2, c.m - 1}) {
      const auto row = [r](const TestTensor& t) {
        TensorView view = t.view();
        view.data = static_cast<float*>(view.data) + r * view.row_stride;
        view.shape = {1, view.shape[1]};
        return view;
      };
      const TestTensor alone(DType::kF32, {1, c.n});
      cpu::run(kernels, ctx, ops::Linear{.out = alone, .x = row(x), .w = packed, .residual = row(residual)});
      ASSERT_TRUE(same_row(alone, 0, out, r)) << "row " << r;
    }
  }
}

TEST(AmxLinear, IntegerProductsHaveTheBitsOfOtherLevels) {
  if (!cpu_features().avx512_bf16) GTEST_SKIP() << "this machine has no AVX512-BF16";
  const cpu::CpuKernels kernels = emulated_kernels();
  const OpTable& vnni = *select_cpu_isa("avx512_vnni").table;
  const TestContext ctx(vnni, 2);
  const auto format = [](int32_t bits, int32_t group, int32_t activation_group, int32_t second_level_group) {
    WeightFormat made{.dtype = DType::kI8, .code_bits = bits, .group_size = group};
    made.second_level_group = second_level_group;
    made.activations = ActivationFormat::kInt8;
    made.activation_group = activation_group;
    return made;
  };
  struct Case {
    int64_t m, n, k;
  };
  // Scales per row, with activations in groups, in half tiles and whole; groups; two levels. Blocks of one
  // and two tiles, more blocks than are kept at once, and elements that fill no tile.
  for (const WeightFormat& own :
       {format(8, 0, 128, 0), format(8, 0, 0, 0), format(8, 0, 32, 0), format(8, 128, 128, 0),
        format(8, 32, 32, 0), format(8, 8, 8, 0), format(4, 128, 128, 32)}) {
    for (const Case& c : {Case{2, 1, 1}, Case{16, 64, 64}, Case{17, 96, 100}, Case{33, 31, 1352},
                          Case{65, 33, 136}, Case{290, 32, 260}}) {
      SCOPED_TRACE(std::to_string(own.code_bits) + " bits, groups of " + std::to_string(own.group_size) +
                   " and " + std::to_string(own.activation_group) + ", " + std::to_string(c.m) + " x " +
                   std::to_string(c.n) + " x " + std::to_string(c.k));
      const TestTensor x = random_tensor(DType::kF32, {c.m, c.k}, 1, 3);
      const TestTensor w = random_tensor(DType::kBF16, {c.n, c.k}, 2, 5);
      const TestTensor residual = random_tensor(DType::kF32, {c.m, c.n}, 3, 1);
      const std::vector<TensorView> parts = {w};
      const PackedLinear packed = vnni.pack_linear(ctx, parts, own);
      const TestTensor want(DType::kF32, {c.m, c.n});
      const TestTensor out(DType::kF32, {c.m, c.n}, 2);
      vnni.run(ctx, ops::Linear{.out = want, .x = x, .w = packed});
      cpu::run(kernels, ctx, ops::Linear{.out = out, .x = x, .w = packed});
      ASSERT_TRUE(test::same_rows(out, want));
      vnni.run(ctx, ops::Linear{.out = want, .x = x, .w = packed, .residual = residual});
      cpu::run(kernels, ctx, ops::Linear{.out = out, .x = x, .w = packed, .residual = residual});
      ASSERT_TRUE(test::same_rows(out, want));
    }
  }
}

}  // namespace
}  // namespace quire
