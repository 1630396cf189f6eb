#include "../kernels/operands.cuh"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "emulated.h"

namespace {

using operands::Kind;
using probe::OperandType;

TEST(Operands, AreTheSameOnHostAndDevice) {
  for (const bool bf16 : {false, true}) {
    std::vector<uint16_t> out(1000);
    operands::run_fill(out.data(), 1000, 7, Kind::kWide, bf16, 2, nullptr);
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(out[i], operands::element(7, i, Kind::kWide, bf16)) << i;
  }
}

// Smallest and largest magnitude of many elements.
std::pair<float, float> range(Kind kind, OperandType type) {
  float smallest = INFINITY, largest = 0;
  for (uint64_t i = 0; i < 100000; ++i) {
    const float x =
        std::fabs(probe::to_float(operands::element(1, i, kind, type == OperandType::kBf16), type));
    EXPECT_TRUE(std::isfinite(x));
    if (x > 0) smallest = std::fmin(smallest, x);
    largest = std::fmax(largest, x);
  }
  return {smallest, largest};
}

TEST(Operands, HaveTheDocumentedRange) {
  for (const OperandType type : {OperandType::kBf16, OperandType::kFp16}) {
    const auto [uniform_low, uniform_high] = range(Kind::kUniform, type);
    EXPECT_GE(uniform_low, std::ldexp(1.0F, -12));
    EXPECT_LT(uniform_high, 1.0F);
    EXPECT_GT(uniform_high, 0.99F);
    const auto [wide_low, wide_high] = range(Kind::kWide, type);
    EXPECT_EQ(std::ilogb(wide_low), -8);
    EXPECT_EQ(std::ilogb(wide_high), 7);
  }
  const float tiny = range(Kind::kTiny, OperandType::kBf16).second;
  EXPECT_LT(tiny * tiny, std::ldexp(1.0F, -126)) << "products are subnormal in float32";
  EXPECT_LT(range(Kind::kTiny, OperandType::kFp16).first, std::ldexp(1.0F, -14))
      << "fp16 operands are subnormal";
}

TEST(Operands, DifferBetweenSeedsAndHaveBothSigns) {
  int equal = 0, negative = 0;
  for (uint64_t i = 0; i < 1000; ++i) {
    const uint16_t a = operands::element(1, i, Kind::kUniform, true);
    equal += a == operands::element(2, i, Kind::kUniform, true) ? 1 : 0;
    negative += a >> 15;
  }
  EXPECT_LT(equal, 50);
  EXPECT_NEAR(negative, 500, 60);
}

TEST(Operands, AccumulatorsAreFiniteAndOfTheSizeOfASum) {
  for (const Kind kind : {Kind::kUniform, Kind::kWide, Kind::kTiny}) {
    for (uint64_t i = 0; i < 10000; ++i) {
      const uint32_t bits = operands::accumulator_bits(3, i, kind, true);
      float x = 0;
      std::memcpy(&x, &bits, sizeof(x));
      ASSERT_TRUE(std::isfinite(x));
      ASSERT_LT(std::fabs(x), kind == Kind::kUniform ? 2.0F
                              : kind == Kind::kWide  ? 65536.0F
                                                     : std::ldexp(1.0F, -124));
    }
  }
}

TEST(CountDifferences, CountsEveryElementWhoseBitsDiffer) {
  for (const int seed : {0, 3}) {
    emulated::set_seed(static_cast<uint64_t>(seed));
    std::vector<float> a(20001, 1.0F), b = a;
    for (const size_t i : {0, 31, 32, 8191, 8192, 20000}) b[i] = std::nextafter(1.0F, 2.0F);
    b[5] = a[5] = NAN;          // equal bits
    a[6] = 0.0F, b[6] = -0.0F;  // equal values, different bits
    std::vector<uint32_t> counts(operands::kNumCounts, 99);
    operands::run_count(counts.data(), a.data(), b.data(), static_cast<int64_t>(a.size()), nullptr);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0U), 7U);
  }
}

}  // namespace
