// The numbers that codes of small floats and of fixed quantiles stand for. Static storage; any thread.
#pragma once

#include <span>

namespace quire {

// fp8 e4m3 (tensor/dtype.h): [256].
std::span<const float> e4m3_values();
// 2^(code - 127): the scales of the OCP microscaling formats, e8m0. [256], NaN for 255.
std::span<const float> e8m0_values();
// 4-bit floats with two bits of exponent and one of mantissa, e2m1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and the same
// negative. [16]
std::span<const float> e2m1_values();
// 6-bit floats of the OCP microscaling formats, the sign in the highest bit: two bits of exponent and three
// of mantissa, up to 7.5; three and two, up to 28. [64]
std::span<const float> e2m3_values();
std::span<const float> e3m2_values();
// Quantiles of the normal distribution (Dettmers et al., QLoRA, arXiv 2305.14314, appendix E). [16]
std::span<const float> nf4_values();
// The 4-bit floats of bitsandbytes: those of 2 bits of exponent and one of mantissa, divided by 12. [16]
std::span<const float> fp4_values();

}  // namespace quire
