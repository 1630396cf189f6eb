// The values of small-float codes and of fixed quantile codes. Static storage; thread-safe.
#pragma once

#include <span>

namespace quire {

// fp8 e4m3 (tensor/dtype.h): [256].
std::span<const float> e4m3_values();
// 2^(code - 127): e8m0, the scales of the OCP microscaling formats. [256], NaN for code 255.
std::span<const float> e8m0_values();
// 4-bit floats with two exponent bits and one mantissa bit, e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their
// negatives. [16]
std::span<const float> e2m1_values();
// 6-bit floats of the OCP microscaling formats, with the sign in the highest bit: e2m3, up to 7.5, and e3m2,
// up to 28. [64]
std::span<const float> e2m3_values();
std::span<const float> e3m2_values();
// Quantiles of the normal distribution (Dettmers et al., QLoRA, arXiv 2305.14314, appendix E). [16]
std::span<const float> nf4_values();
// The 4-bit floats of bitsandbytes: two exponent bits and one mantissa bit, divided by 12. [16]
std::span<const float> fp4_values();

}  // namespace quire
