#include "quant/activation_slices.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace quire {

float slice_activations(const float* x, int64_t n, int count, int8_t* slices, int64_t stride) {
  float largest = 0;
  float flaws = 0;  // stays 0 while all are finite, otherwise NaN
  for (int64_t i = 0; i < n; ++i) {
    largest = std::max(std::fabs(x[i]), largest);
    flaws += x[i] - x[i];
  }
  if (flaws != 0.0F || largest < kMinSliced) {
    for (int d = 0; d < count; ++d) std::fill_n(slices + d * stride, n, int8_t{0});
    return flaws != 0.0F ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
  }
  float scale = largest * (1.0F / largest_of_slices(count));
  // Rounds up to a power of two.
  if (count == kFloatSlices)
    scale = std::bit_cast<float>((std::bit_cast<uint32_t>(scale) + 0x7fffffU) & 0x7f800000U);
  const float inverse = 1.0F / scale;
  for (int64_t i = 0; i < n; ++i) {
    // Integers below 2^24: all differences are exact.
    float rest = std::nearbyint(x[i] * inverse);
    float place = count == kFloatSlices ? kSliceBase * kSliceBase : kSliceBase;
    for (int d = 0; d + 1 < count; ++d, place /= kSliceBase) {
      const float slice = std::nearbyint(rest * (1.0F / place));
      slices[d * stride + i] = static_cast<int8_t>(slice);
      rest = std::fma(-slice, place, rest);
    }
    slices[(count - 1) * stride + i] = static_cast<int8_t>(rest);
  }
  return scale;
}

float join_slices(const int32_t* sums, int count) {
  auto value = static_cast<float>(sums[0]);
  for (int d = 1; d < count; ++d) value = std::fma(value, kSliceBase, static_cast<float>(sums[d]));
  return value;
}

}  // namespace quire
