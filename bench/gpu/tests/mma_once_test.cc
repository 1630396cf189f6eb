#include "../kernels/mma_once.cuh"

#include <gtest/gtest.h>

#include <vector>

#include "emulated.h"

namespace {

template <class T>
void expect_model(probe::OperandType type) {
  constexpr int kProducts = 8;
  emulated::set_seed(1);
  emulated::set_mma_arithmetic(emulated::MmaArithmetic::kHopper);
  const auto a = random_operands(kProducts * 256, type, 1), b = random_operands(kProducts * 128, type, 2);
  std::vector<float> c(kProducts * 128), d(c.size());
  for (size_t i = 0; i < c.size(); ++i) c[i] = static_cast<float>(i % 17) - 8.3F;
  mma_once::run(d.data(), reinterpret_cast<const T*>(a.data()), reinterpret_cast<const T*>(b.data()),
                c.data(), kProducts, nullptr);
  for (size_t i = 0; i < d.size(); ++i) {
    const size_t product = i / 128, row = i % 128 / 8, column = i % 8;
    const float expected = probe::fused_dot_add(&a[product * 256 + row * 16], &b[product * 128 + column * 16],
                                                16, c[i], type, 25);
    ASSERT_TRUE(same_bits(d[i], expected)) << i << ": " << d[i] << " and " << expected;
  }
}

TEST(MmaOnce, ComputesOneInstructionPerWarp) {
  expect_model<__nv_bfloat16>(probe::OperandType::kBf16);
  expect_model<__half>(probe::OperandType::kFp16);
}

}  // namespace
