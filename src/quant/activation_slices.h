// Splits float activations into two or three int8 slices (Ozaki-style), so that their products with integer
// weights are sums of int8 products, which are exact. Plain data and free functions; thread-safe.
//
// Elements that share a scale are rounded to multiples of it. With three slices, the scale is the smallest
// power of two with which the largest element fits; errors are at most 2^-22.9 of the largest element, as
// much as two roundings to float32 at that magnitude. With two slices, the largest element is mapped to the
// largest representable integer; errors are at most 2^-15.9 of it.
#pragma once

#include <cstdint>

namespace quire {

constexpr int kFloatSlices = 3;
constexpr int kInt16Slices = 2;
// Slices of -127 to 127 allow a base of up to 255. A smaller base leaves room for divisions that round in the
// other direction.
constexpr float kSliceBase = 253.0F;
// The largest integer that `count` slices, 2 or 3, can represent.
constexpr float largest_of_slices(int count) {
  return count == kFloatSlices ? 127.0F * kSliceBase * kSliceBase : 127.0F * kSliceBase;
}
// Groups in which nothing is larger become zeros, so that scales and their inverses are normal numbers.
constexpr float kMinSliced = 1e-30F;

// Splits n activations that share a scale into slices [count][stride], count 2 or 3, the highest first.
// Returns the scale. If all activations are smaller than kMinSliced, the scale and the slices are 0. If one
// is not finite, the scale is NaN and the slices are 0.
float slice_activations(const float* x, int64_t n, int count, int8_t* slices, int64_t stride);

// Joins the sums of products of the slices, the highest first; the result has yet to be multiplied by the
// scale. count: 1 for int8 activations.
float join_slices(const int32_t* sums, int count);

}  // namespace quire
