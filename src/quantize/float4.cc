#include "quantize/float4.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "quant/code_tables.h"
#include "quant/codec.h"

namespace quire {
namespace {

constexpr float kLargest = 6.0F;         // largest e2m1 value
constexpr float kLargestScale = 448.0F;  // largest e4m3 value

// The nearest code; ties go to even.
uint8_t code_of(float x) {
  constexpr std::array<float, 7> kBounds = {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F};
  const float size = std::fabs(x);
  uint8_t code = 0;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    const bool above = i % 2 == 0 ? size > kBounds[i] : size >= kBounds[i];
    if (above) code = static_cast<uint8_t>(i + 1);
  }
  return static_cast<uint8_t>(std::signbit(x) ? code | 8 : code);
}

double error_of(std::span<const float> w, float step) {
  double error = 0.0;
  for (const float v : w) {
    const double difference = v - double{step} * e2m1_values()[code_of(v / step)];
    error += difference * difference;
  }
  return error;
}

// The scale code in [first, last], with a value above 0, that has the smallest squared error.
uint8_t best_scale(std::span<const float> w, int first, int last, std::span<const float> numbers,
                   float divisor) {
  double min_error = std::numeric_limits<double>::infinity();
  int best = first;
  for (int code = first; code <= last; ++code) {
    const float step = numbers[static_cast<size_t>(code)] / divisor;
    if (!(step > 0.0F)) continue;
    const double error = error_of(w, step);
    if (error < min_error) {
      min_error = error;
      best = code;
    }
  }
  return static_cast<uint8_t>(best);
}

float largest_of(std::span<const float> w) {
  float largest = 0.0F;
  for (const float v : w) largest = std::max(largest, std::fabs(v));
  return largest;
}

// choose(group) returns the code of its scale.
template <typename Choose>
void round_groups(ThreadPool& pool, std::span<const float> w, int64_t n, int64_t k, int64_t group,
                  std::span<const float> numbers, Float4Matrix& out, Choose choose) {
  out.codes.resize(static_cast<size_t>(n * k));
  out.scales.resize(static_cast<size_t>(n * k / group));
  pool.parallel_for(n * k / group, 64, [&](int64_t first, int64_t last, int) {
    for (int64_t g = first; g < last; ++g) {
      const auto at = static_cast<size_t>(g * group);
      const auto part = w.subspan(at, static_cast<size_t>(group));
      const uint8_t scale = choose(part);
      out.scales[static_cast<size_t>(g)] = scale;
      const float step = numbers[scale] / out.divisor;
      for (size_t i = 0; i < part.size(); ++i)
        out.codes[at + i] = step > 0.0F ? code_of(part[i] / step) : uint8_t{0};
    }
  });
}

}  // namespace

Float4Matrix round_to_nvfp4(ThreadPool& pool, std::span<const float> w, int64_t n, int64_t k) {
  Float4Matrix out;
  const float largest = largest_of(w);
  out.divisor = largest > 0.0F ? kLargest * kLargestScale / largest : 1.0F;
  round_groups(pool, w, n, k, kNvFp4Group, e4m3_values(), out, [&](std::span<const float> group) {
    // Non-negative e4m3 codes ascend with their values; the last finite one is 448.
    constexpr int kTop = 0x7E;
    const int guess = f32_to_f8e4m3(std::min(kLargestScale, largest_of(group) / kLargest * out.divisor));
    return best_scale(group, std::max(1, guess - 3), std::min(kTop, guess + 1), e4m3_values(), out.divisor);
  });
  return out;
}

Float4Matrix round_to_mxfp4(ThreadPool& pool, std::span<const float> w, int64_t n, int64_t k) {
  Float4Matrix out;
  round_groups(pool, w, n, k, kMxFp4Group, e8m0_values(), out, [&](std::span<const float> group) {
    const float largest = largest_of(group);
    // The largest weight is 4 to 8 times the smaller power of two, and 2 to 4 times the larger one.
    const int guess = largest > 0.0F ? std::ilogb(largest) - 2 + 127 : 127;
    return best_scale(group, std::clamp(guess, 0, 254), std::clamp(guess + 1, 0, 254), e8m0_values(), 1.0F);
  });
  return out;
}

}  // namespace quire
