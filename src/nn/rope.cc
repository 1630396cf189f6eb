#include "nn/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/parallel.h"

namespace quire {
namespace {

// theta^(2i / dim), the wavelength of pair i over 2 pi.
std::vector<float> position_frequencies(const RopeSpec& spec) {
  std::vector<float> powers(static_cast<size_t>(spec.rotary_dim / 2));
  for (size_t i = 0; i < powers.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(spec.rotary_dim);
    // Through double: the nearest float of the power.
    powers[i] = static_cast<float>(std::pow(spec.theta, static_cast<double>(exponent)));
  }
  return powers;
}

// Llama 3.1: waves longer than the training length are slowed down by `factor`, short ones kept, those
// between blended.
float llama3_frequency(const RopeSpec& spec, float inverse) {
  const double low_wavelength = spec.original_max_position / spec.low_freq_factor;
  const double high_wavelength = spec.original_max_position / spec.high_freq_factor;
  const double wavelength = static_cast<float>(2.0 * std::numbers::pi) / inverse;
  if (wavelength > low_wavelength) return inverse / static_cast<float>(spec.factor);
  if (wavelength < high_wavelength) return inverse;
  const auto smooth = static_cast<float>((spec.original_max_position / wavelength - spec.low_freq_factor) /
                                         (spec.high_freq_factor - spec.low_freq_factor));
  return (1.0F - smooth) * inverse / static_cast<float>(spec.factor) + smooth * inverse;
}

// The dimension whose wave turns `rotations` times within the training length. YaRN (arXiv 2309.00071),
// section 3.2.
double yarn_dimension(const RopeSpec& spec, double rotations) {
  return spec.rotary_dim * std::log(spec.original_max_position / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(spec.theta));
}

// YaRN: dimensions that turn often keep their frequency, those that turn less than once in training are
// interpolated, and a ramp over the dimensions blends between.
std::vector<float> yarn_frequencies(const RopeSpec& spec, const std::vector<float>& powers) {
  double low = yarn_dimension(spec, spec.beta_fast);
  double high = yarn_dimension(spec, spec.beta_slow);
  if (spec.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(spec.rotary_dim - 1));
  if (low == high) high += 0.001;  // no ramp of width zero

  std::vector<float> out(powers.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const auto ramp = std::clamp(
        (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low), 0.0F, 1.0F);
    const float keep = 1.0F - ramp;
    const float extrapolated = 1.0F / powers[i];
    const float interpolated = 1.0F / (static_cast<float>(spec.factor) * powers[i]);
    out[i] = interpolated * (1.0F - keep) + extrapolated * keep;
  }
  return out;
}

}  // namespace

std::vector<float> rope_inverse_frequencies(const RopeSpec& spec) {
  const std::vector<float> powers = position_frequencies(spec);
  if (spec.scaling == RopeScaling::kYarn) return yarn_frequencies(spec, powers);
  std::vector<float> out(powers.size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = 1.0F / powers[i];
    if (spec.scaling == RopeScaling::kLinear) out[i] /= static_cast<float>(spec.factor);
    if (spec.scaling == RopeScaling::kLlama3) out[i] = llama3_frequency(spec, out[i]);
  }
  return out;
}

Rope make_rope(const OpContext& ctx, const RopeSpec& spec, int64_t max_positions) {
  const std::vector<float> inverse = rope_inverse_frequencies(spec);
  const auto half = static_cast<int64_t>(inverse.size());
  Rope rope;
  rope.style = spec.style;
  rope.data = Buffer(static_cast<size_t>(max_positions * 2 * half) * sizeof(float));
  rope.cos_sin = make_view(rope.data.data(), DType::kF32, Shape{max_positions, 2 * half});
  constexpr int64_t kTrigCost = 64;  // element operations that a sine and a cosine are worth
  parallel_ranges(ctx, max_positions, row_grain(half * kTrigCost), [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      float* row = rope.cos_sin.row<float>(p);
      for (int64_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(p) * inverse[static_cast<size_t>(i)];
        row[i] = static_cast<float>(std::cos(static_cast<double>(angle)) * spec.attention_factor);
        row[half + i] = static_cast<float>(std::sin(static_cast<double>(angle)) * spec.attention_factor);
      }
    }
  });
  return rope;
}

void apply(const OpTable& ops, const OpContext& ctx, const Rope& rope, const TensorView& x,
           std::span<const int32_t> positions) {
  ops.rope(ctx, x, positions, rope.cos_sin, rope.style);
}

}  // namespace quire
