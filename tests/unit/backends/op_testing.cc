// Loops over all elements of test tensors. They are optimized in every build, and no sanitizer instruments
// them.
#include "op_testing.h"

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace quire::testing {

namespace {

// About normally distributed: the sum of four uniform numbers, scaled to a variance of 1. Most of the time of
// these tests would otherwise be spent on logarithms.
class NormalDistribution {
 public:
  explicit NormalDistribution(uint32_t seed) : seed_(mix64(seed)) {}

  float next() {
    const uint64_t bits = mix64(seed_ + ++count_);
    const auto uniform = [&](int i) { return static_cast<int32_t>(bits >> 16 * i & 0xffff); };
    const int32_t sum = uniform(0) + uniform(1) + uniform(2) + uniform(3) - 2 * 0xffff;
    // The low bits of the sum's last digit, so that the significand has no zeros at its end.
    const float fraction = static_cast<float>(bits * 0x9e3779b97f4a7c15 >> 40) * 0x1p-24F;
    return (static_cast<float>(sum) + fraction) * (1.7320508F / 65536);
  }

 private:
  uint64_t seed_;
  uint64_t count_ = 0;
};

}  // namespace

TestTensor random_tensor(DType dtype, Shape shape, uint32_t seed, int64_t padding, float scale) {
  TestTensor t(dtype, shape, padding);
  NormalDistribution normal(seed);
  const int64_t rows = t.view().rows();
  const int64_t row_size = t.view().row_size();
  for (int64_t r = 0; r < rows; ++r) {
    if (dtype == DType::kF32) {
      float* row = t.view().row<float>(r);
      for (int64_t i = 0; i < row_size; ++i) row[i] = normal.next() * scale;
    } else {
      for (int64_t i = 0; i < row_size; ++i) t.set(r, i, normal.next() * scale);
    }
  }
  return t;
}

void expect_near(const TensorView& got, const TensorView& want, float absolute, float relative,
                 const char* what) {
  const int64_t rows = want.rows();
  const int64_t row_size = want.row_size();
  for (int64_t r = 0; r < rows; ++r) {
    const float* got_row = got.row<float>(r);
    const float* want_row = want.row<float>(r);
    for (int64_t i = 0; i < row_size; ++i) {
      const float g = got_row[i];
      const float w = want_row[i];
      const float bound = absolute + relative * std::fabs(w);
      if (std::fabs(double{g} - double{w}) <= double{bound}) continue;  // as ASSERT_NEAR, in less time
      ASSERT_NEAR(g, w, bound) << what << ", row " << r << ", element " << i;
    }
  }
}

}  // namespace quire::testing
