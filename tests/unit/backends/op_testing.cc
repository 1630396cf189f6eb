// Loops over all elements of test tensors. They are optimized in every build, and no sanitizer instruments
// them.
#include "op_testing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace quire::test {

namespace {

// Marsaglia's polar method. std::normal_distribution gives the same numbers, but its templates computed a
// logarithm of type long double for each, and a linker may choose copies of them that are not optimized: that
// took most of the time of these tests.
class NormalDistribution {
 public:
  explicit NormalDistribution(uint32_t seed) : rng_(seed) {}

  float next() {
    if (has_second_) {
      has_second_ = false;
      return second_;
    }
    float x = 0;
    float y = 0;
    float square = 0;
    do {
      x = 2 * uniform() - 1;
      y = 2 * uniform() - 1;
      square = x * x + y * y;
    } while (square > 1 || square == 0);
    const float factor = std::sqrt(-2 * std::log(square) / square);
    second_ = x * factor;
    has_second_ = true;
    return y * factor;
  }

 private:
  // In [0, 1).
  float uniform() { return std::min(static_cast<float>(rng_()) * 0x1p-32F, 0x1.fffffep-1F); }

  // std::mt19937, which has elements of 64 bits.
  std::mersenne_twister_engine<uint32_t, 32, 624, 397, 31, 0x9908b0df, 11, 0xffffffff, 7, 0x9d2c5680, 15,
                               0xefc60000, 18, 1812433253>
      rng_;
  float second_ = 0;
  bool has_second_ = false;
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

Buffer random_buffer(DType dtype, int64_t count, uint32_t seed) {
  Buffer buffer(static_cast<size_t>(count) * dtype_size(dtype));
  if (count == 0) return buffer;
  const TestTensor values = random_tensor(dtype, {1, count}, seed);
  std::memcpy(buffer.data(), values.view().data, buffer.size());
  return buffer;
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

}  // namespace quire::test
