#include "../kernels/gemm_mma.cuh"

#include <cmath>

#include "emulated.h"

namespace {

constexpr int kTokens = 18, kFeatures = 40,
              kDepth = 320;  // no multiple of a tile, and more stages than the ring holds

template <class T>
constexpr probe::OperandType kType =
    std::is_same_v<T, __half> ? probe::OperandType::kFp16 : probe::OperandType::kBf16;

// Kernels read the operands in place, so AddressSanitizer sees accesses past their ends.
template <class T>
struct Problem {
  std::vector<uint16_t> x = random_operands(kTokens * kDepth, kType<T>, 1);
  std::vector<uint16_t> w = random_operands(kFeatures * kDepth, kType<T>, 2);

  template <class Config>
  std::vector<float> run(int num_tokens) const {
    std::vector<float> y(static_cast<size_t>(num_tokens) * kFeatures, NAN);
    run_gemm_mma<Config>(y.data(), reinterpret_cast<const T*>(x.data()), reinterpret_cast<const T*>(w.data()),
                         num_tokens, kFeatures, kDepth, nullptr);
    return y;
  }

  const uint16_t* token(size_t i) const { return &x[i / kFeatures * kDepth]; }
  const uint16_t* feature(size_t i) const { return &w[i % kFeatures * kDepth]; }
};

template <class T>
using Narrow = GemmMma<T, 1, 16, 4>;  // one warp
template <class T>
using Wide = GemmMma<T, 2, 32, 3>;

template <class T>
class GemmMmaTest : public testing::Test {
 protected:
  void SetUp() override { emulated::set_mma_arithmetic(emulated::MmaArithmetic::kHopper); }
};
using Types = testing::Types<__nv_bfloat16, __half>;
TYPED_TEST_SUITE(GemmMmaTest, Types);

TYPED_TEST(GemmMmaTest, MatchesFloat64ForEverySeed) {
  emulated::set_mma_arithmetic(emulated::MmaArithmetic::kFma);
  const Problem<TypeParam> problem;
  const auto y = run_with_every_seed([&] { return problem.template run<Wide<TypeParam>>(kTokens); });
  for (size_t i = 0; i < y.size(); ++i) {
    double dot = 0, magnitude = 0;
    for (int l = 0; l < kDepth; ++l) {
      const double product = double{probe::to_float(problem.token(i)[l], kType<TypeParam>)} *
                             probe::to_float(problem.feature(i)[l], kType<TypeParam>);
      dot += product;
      magnitude += std::fabs(product);
    }
    ASSERT_NEAR(y[i], dot, magnitude * 1e-5) << "element " << i;
  }
}

TYPED_TEST(GemmMmaTest, SumsInOneChainOverK) {
  const Problem<TypeParam> problem;
  emulated::set_seed(1);
  const auto y = problem.template run<Wide<TypeParam>>(kTokens);
  for (size_t i = 0; i < y.size(); ++i) {
    const float chain = probe::dot_chain(problem.token(i), problem.feature(i), kDepth, kType<TypeParam>, {});
    ASSERT_TRUE(same_bits(y[i], chain)) << "element " << i << ": " << y[i] << " and " << chain;
  }
}

TYPED_TEST(GemmMmaTest, RowsDependOnNeitherTilesNorNumberOfTokens) {
  const Problem<TypeParam> problem;
  emulated::set_seed(2);
  const auto all = problem.template run<Wide<TypeParam>>(kTokens);
  for (const int tokens : {1, 17}) {
    const auto some = problem.template run<Narrow<TypeParam>>(tokens);
    for (size_t i = 0; i < some.size(); ++i)
      ASSERT_TRUE(same_bits(some[i], all[i])) << tokens << " tokens, " << i;
  }
}

}  // namespace
