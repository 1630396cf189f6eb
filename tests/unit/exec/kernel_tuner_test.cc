// The choice of kernel variants: what is measured, and what never is.
#include "exec/kernel_tuner.h"

#include <gtest/gtest.h>

#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "ops/reference.h"

namespace quire {
namespace {

// An int8 matrix of zeros.
PackedLinear int8_matrix(const OpTable& table, int64_t n, int64_t k) {
  PackedLinear matrix;
  matrix.format = {
      .dtype = DType::kI8, .code_bits = 8, .activations = ActivationFormat::kInt8, .activation_group = 128};
  matrix.n = n;
  matrix.k = k;
  matrix.data = Buffer(static_cast<size_t>(table.packed_bytes(matrix.format, n, k)));
  return matrix;
}

TEST(KernelTuner, MeasuresMatricesOfIntegers) {
  const CpuIsa& isa = select_cpu_isa();
  if (isa.name == "generic") GTEST_SKIP() << "generic has no variants";
  const PackedLinear matrix = int8_matrix(*isa.table, 8192, 4608);
  KernelTuner tuner;
  tuner.add(matrix);
  ThreadPool pool(2);
  const KernelTuner::Choice choice = tuner.choose(*isa.table, pool);
  EXPECT_EQ(choice.bytes, static_cast<int64_t>(matrix.data.size()));
  EXPECT_GE(choice.gain, 1.0);
}

TEST(KernelTuner, LeavesOutMatricesThatExceedItsLimit) {
  const CpuIsa& isa = select_cpu_isa();
  if (isa.name == "generic") GTEST_SKIP() << "generic has no variants";
  const PackedLinear small = int8_matrix(*isa.table, 8192, 4608);
  const PackedLinear large = int8_matrix(*isa.table, 32768, 4608);
  KernelTuner tuner;
  tuner.add(large);
  tuner.add(small);
  ThreadPool pool(2);
  EXPECT_EQ(tuner.choose(*isa.table, pool).bytes, static_cast<int64_t>(small.data.size()));
}

TEST(KernelTuner, KeepsTheDefaultWithoutVariantsOrForFewWeights) {
  const CpuIsa& isa = select_cpu_isa();
  ThreadPool pool(1);
  const PackedLinear matrix = int8_matrix(*isa.table, 8192, 4608);
  KernelTuner tuner;
  EXPECT_EQ(tuner.choose(*isa.table, pool).bytes, 0);
  PackedLinear floats;
  floats.format = {.dtype = DType::kF32};
  floats.data = Buffer(size_t{64} << 20);
  tuner.add(floats);
  EXPECT_EQ(tuner.choose(*isa.table, pool).bytes, 0);
  tuner.add(matrix);
  const KernelTuner::Choice choice = tuner.choose(reference_ops(), pool);
  EXPECT_EQ(choice.bytes, 0);
  EXPECT_EQ(choice.tuning, KernelTuning{});
}

}  // namespace
}  // namespace quire
