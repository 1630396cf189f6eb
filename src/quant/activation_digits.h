// Float activations as whole numbers of two or three digits of 8 bits each, so that their products with
// weights of whole numbers are sums of int8 products, which are exact. Plain data and free functions; any
// thread.
//
// Elements that share a scale become multiples of it. Of three digits it is a power of two, the least with
// which the largest element fits: none is off by more than 2^-22.9 of that one, two roundings to float32
// there. Of two the largest becomes the largest number that there is, and none is off by more than 2^-15.9 of
// it.
#pragma once

#include <cstdint>

namespace quire {

constexpr int kFloatDigits = 3;
constexpr int kInt16Digits = 2;
// The most that digits of -127 .. 127 could have is 255: with less, a digit may come out of a division
// that rounds the other way.
constexpr float kDigitBase = 253.0F;
// The largest whole number of so many digits, 2 or 3.
constexpr float largest_of_digits(int count) {
  return count == kFloatDigits ? 127.0F * kDigitBase * kDigitBase : 127.0F * kDigitBase;
}
// Groups with nothing larger are zeros: so that neither scales nor their inverses leave the normal numbers.
constexpr float kLeastDigits = 1e-30F;

// n activations that share a scale, into digits [count][stride], count 2 or 3, the highest first. Returns the
// scale: 0 with digits of 0 where all are smaller than kLeastDigits, NaN with digits of 0 where one is not
// finite.
float split_activations(const float* x, int64_t n, int count, int8_t* digits, int64_t stride);

// What sums of products of each digit, the highest first, stand for before their scale. count: 1 for numbers
// that are one digit.
float join_digits(const int32_t* sums, int count);

}  // namespace quire
