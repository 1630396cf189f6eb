#include "quantize/float4.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "quant/code_tables.h"
#include "quant/codec.h"

namespace quire {
namespace {

constexpr float kLargest = 6.0F;         // of e2m1
constexpr float kLargestScale = 448.0F;  // of e4m3

// The nearest code; in the middle the even one.
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

// Of the scale codes first .. last that stand for more than 0 the one with the smallest squared error.
uint8_t best_scale(std::span<const float> w, int first, int last, std::span<const float> numbers,
                   float divisor) {
  double least = std::numeric_limits<double>::infinity();
  int best = first;
  for (int code = first; code <= last; ++code) {
    const float step = numbers[static_cast<size_t>(code)] / divisor;
    if (!(step > 0.0F)) continue;
    const double error = error_of(w, step);
    if (error < least) {
      least = error;
      best = code;
    }
  }
  return static_cast<uint8_t>(best);
}

float largest_of(std::span<const float> w) {
  float most = 0.0F;
  for (const float v : w) most = std::max(most, std::fabs(v));
  return most;
}

// choose(group): the code of its scale.
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
  const float most = largest_of(w);
  out.divisor = most > 0.0F ? kLargest * kLargestScale / most : 1.0F;
  round_groups(pool, w, n, k, kNvFp4Group, e4m3_values(), out, [&](std::span<const float> group) {
    // Codes of e4m3 that are not negative rise with their numbers; the last that is one is 448's.
    constexpr int kTop = 0x7E;
    const int usual = f32_to_f8e4m3(std::min(kLargestScale, largest_of(group) / kLargest * out.divisor));
    return best_scale(group, std::max(1, usual - 3), std::min(kTop, usual + 1), e4m3_values(), out.divisor);
  });
  return out;
}

Float4Matrix round_to_mxfp4(ThreadPool& pool, std::span<const float> w, int64_t n, int64_t k) {
  Float4Matrix out;
  round_groups(pool, w, n, k, kMxFp4Group, e8m0_values(), out, [&](std::span<const float> group) {
    const float most = largest_of(group);
    // The largest is 4 to 8 times a step of the power below, 2 to 4 times the next.
    const int usual = most > 0.0F ? std::ilogb(most) - 2 + 127 : 127;
    return best_scale(group, std::clamp(usual, 0, 254), std::clamp(usual + 1, 0, 254), e8m0_values(), 1.0F);
  });
  return out;
}

}  // namespace quire
