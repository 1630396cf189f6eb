#include "nn/rope.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <utility>

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

// Llama 3.1: the frequency of long wavelengths is divided by `factor`, short ones are kept, and those between
// are blended.
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

// The dimension that completes `rotations` rotations within the training length (YaRN, arXiv 2309.00071,
// section 3.2).
double yarn_dimension(const RopeSpec& spec, double rotations) {
  return spec.rotary_dim * std::log(spec.original_max_position / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(spec.theta));
}

// YaRN: dimensions with at least beta_fast rotations within the training length keep their frequency, those
// with at most beta_slow are interpolated, and a linear ramp blends between them.
std::vector<float> yarn_frequencies(const RopeSpec& spec, const std::vector<float>& powers) {
  double low = yarn_dimension(spec, spec.beta_fast);
  double high = yarn_dimension(spec, spec.beta_slow);
  if (spec.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(spec.rotary_dim - 1));
  if (low == high) high += 0.001;  // avoids a ramp of width zero

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

// The RoPE base for the maximum sequence length (dynamic NTK scaling).
double dynamic_theta(const RopeSpec& spec, int64_t max_positions) {
  const double length = std::max(static_cast<double>(max_positions), spec.original_max_position);
  const double stretch = spec.factor * length / spec.original_max_position - (spec.factor - 1.0);
  const double dim = spec.rotary_dim;
  return spec.theta * std::pow(stretch, dim / (dim - 2.0));
}

bool takes_long_factors(const RopeSpec& spec, int64_t max_positions) {
  return spec.scaling == RopeScaling::kLongRope &&
         static_cast<double>(max_positions) > spec.original_max_position;
}

}  // namespace

std::vector<float> rope_inverse_frequencies(const RopeSpec& spec, int64_t max_positions) {
  if (spec.scaling == RopeScaling::kDynamic) {
    RopeSpec plain = spec;
    plain.scaling = RopeScaling::kNone;
    plain.theta = dynamic_theta(spec, max_positions);
    return rope_inverse_frequencies(plain, max_positions);
  }
  const std::vector<float> powers = position_frequencies(spec);
  if (spec.scaling == RopeScaling::kYarn) return yarn_frequencies(spec, powers);
  const auto& factors = takes_long_factors(spec, max_positions) ? spec.long_factors : spec.short_factors;
  const auto rotated_pairs = static_cast<size_t>(spec.partial_rotary_factor * spec.rotary_dim / 2.0);
  std::vector<float> out(powers.size());
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = 1.0F / powers[i];
    switch (spec.scaling) {
      case RopeScaling::kLinear:
        out[i] /= static_cast<float>(spec.factor);
        break;
      case RopeScaling::kLlama3:
        out[i] = llama3_frequency(spec, out[i]);
        break;
      case RopeScaling::kLongRope:
        out[i] = 1.0F / (static_cast<float>(factors[i]) * powers[i]);
        break;
      case RopeScaling::kProportional:
        out[i] = i < rotated_pairs ? out[i] / static_cast<float>(spec.factor) : 0.0F;
        break;
      case RopeScaling::kQueryScaleOnly:
        out[i] = 0.0F;
        break;
      case RopeScaling::kNone:
      case RopeScaling::kYarn:
      case RopeScaling::kDynamic:
        break;
    }
  }
  return out;
}

double rope_attention_factor(const RopeSpec& spec, int64_t max_positions) {
  return takes_long_factors(spec, max_positions) ? spec.long_attention_factor : spec.attention_factor;
}

namespace {

// table: [num_rows, 2 * half]. Row p is multiplied by factor(p).
template <typename F>
void fill_angles(const OpContext& ctx, const TensorView& table, const std::vector<float>& inverse,
                 F&& factor) {
  const auto half = static_cast<int64_t>(inverse.size());
  constexpr int64_t kTrigCost = 64;  // cost of a sine and a cosine in element operations
  parallel_ranges(ctx, table.rows(), row_grain(half * kTrigCost), [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      float* row = table.row<float>(p);
      const double times = factor(p);
      for (int64_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(p) * inverse[static_cast<size_t>(i)];
        row[i] = static_cast<float>(std::cos(static_cast<double>(angle)) * times);
        row[half + i] = static_cast<float>(std::sin(static_cast<double>(angle)) * times);
      }
    }
  });
}

}  // namespace

Rope make_rope(const OpContext& ctx, const RopeSpec& spec, int64_t max_positions, int64_t num_rows) {
  std::vector<float> inverse = rope_inverse_frequencies(spec, max_positions);
  if (spec.inverse) std::ranges::transform(inverse, inverse.begin(), std::negate<>());
  const double factor = rope_attention_factor(spec, max_positions);
  const Shape shape{num_rows > 0 ? num_rows : max_positions, 2 * static_cast<int64_t>(inverse.size())};
  const auto bytes = static_cast<size_t>(shape.numel()) * sizeof(float);
  Rope rope;
  rope.style = spec.style;
  rope.query_scale_only = spec.scaling == RopeScaling::kQueryScaleOnly;
  if (!rope.query_scale_only) {
    rope.data = Buffer(bytes);
    rope.cos_sin = make_view(rope.data.data(), DType::kF32, shape);
    fill_angles(ctx, rope.cos_sin, inverse, [&](int64_t) { return factor; });
  }
  rope.query_cos_sin = rope.cos_sin;
  if (spec.query_scale_beta != 0.0) {
    rope.query_data = Buffer(bytes);
    rope.query_cos_sin = make_view(rope.query_data.data(), DType::kF32, shape);
    fill_angles(ctx, rope.query_cos_sin, inverse, [&](int64_t p) {
      const double reached =
          std::floor(static_cast<double>(p + spec.query_scale_offset) / spec.query_scale_floor);
      return factor * (1.0 + spec.query_scale_beta * std::log1p(reached));
    });
  }
  return rope;
}

void move_tables(Rope& rope, const std::function<Buffer(Buffer)>& move) {
  const auto move_one = [&](Buffer& table, TensorView& view) {
    table = move(std::move(table));
    view.data = table.data();
  };
  if (rope.data.size() > 0) move_one(rope.data, rope.cos_sin);
  rope.query_cos_sin.data = rope.cos_sin.data;
  if (rope.query_data.size() > 0) move_one(rope.query_data, rope.query_cos_sin);
}

void apply_to_queries(const OpRunner& run, const Rope& rope, const TensorView& q,
                      std::span<const int32_t> positions) {
  run(ops::Rope{.x = q, .positions = positions, .cos_sin = rope.query_cos_sin, .style = rope.style});
}

void apply(const OpRunner& run, const Rope& rope, const TensorView& q, const TensorView& k,
           std::span<const int32_t> positions) {
  apply_to_queries(run, rope, q, positions);
  if (!rope.query_scale_only)
    run(ops::Rope{.x = k, .positions = positions, .cos_sin = rope.cos_sin, .style = rope.style});
}

}  // namespace quire
