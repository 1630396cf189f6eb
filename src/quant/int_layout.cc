#include "quant/int_layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace quire {
namespace {

constexpr int64_t kIntPanel = IntLayout::kPanel;
// Smaller magnitudes are treated as 0: their inverse might not be finite.
constexpr float kSmallestSize = 1e-36F;
constexpr float kLargestHalf = 65504.0F;

const std::byte* group_of(const IntLayout& at, const std::byte* weights, int64_t row, int64_t i) {
  return weights + row / kIntPanel * at.panel_bytes + i / at.group * at.group_bytes;
}

float clamp(float v, float low, float high) {
  return std::min(std::max(v, low), high);
}

// Quantization parameters of one column of a group.
struct Column {
  float size = 0.0F;   // the largest weight or, with zero points, the range; 0 if all weights are zero
  float scale = 0.0F;  // NaN if a weight is not finite
  float zero_point = 0.0F;
};

// Tries the candidate scales. w: n elements, 32 apart; they are divided by the column's size.
Column best_column(float* w, int64_t n, const IntCandidates& candidates, bool zero_points) {
  float low = 0;
  float high = 0;
  float flaws = 0;  // NaN if one is not finite
  for (int64_t i = 0; i < n; ++i) {
    const float v = w[i * kIntPanel];
    low = std::min(v, low);
    high = std::max(v, high);
    flaws += v - v;
  }
  const float extreme = -low > high ? low : high;
  const float size = zero_points ? high - low : extreme;
  const bool usable = flaws == 0.0F && std::fabs(size) >= kSmallestSize;
  if (!usable) {
    for (int64_t i = 0; i < n; ++i) w[i * kIntPanel] = 0.0F;
    return {.scale = flaws == 0.0F ? 0.0F : std::numeric_limits<float>::quiet_NaN()};
  }
  const float inverse = 1.0F / size;
  for (int64_t i = 0; i < n; ++i) w[i * kIntPanel] *= inverse;
  float best = -1.0F;
  float best_factor = 0.0F;
  Column column = {.size = size};
  for (int c = 0; c < candidates.count; ++c) {
    const float step = candidates.steps[c];
    const float zero = zero_points ? clamp(std::nearbyint(-low * inverse * step), 0.0F, 15.0F) : 0.0F;
    const float min_value = candidates.low - zero;
    const float max_value = candidates.high - zero;
    float product = 0;
    float square = 0;
    for (int64_t i = 0; i < n; ++i) {
      const float v = w[i * kIntPanel];
      const float d = clamp(std::nearbyint(v * step), min_value, max_value);
      product = std::fma(v, d, product);
      square = std::fma(d, d, square);
    }
    const float factor = product / std::max(square, 1.0F);
    const float score = product * factor;
    if (best < score) {
      best = score;
      best_factor = factor;
      column.zero_point = zero;
    }
  }
  column.scale = size * best_factor;
  return column;
}

// Rounds a scale to float16.
float stored_half(float scale) {
  return f16_to_f32(f32_to_f16(clamp(scale, -kLargestHalf, kLargestHalf)));
}

// w as written by best_column is replaced by the quantized values minus the zero point, for weights that are
// those times `scale`.
void round_column(float* w, int64_t n, const IntCandidates& candidates, const Column& column, float scale) {
  // If the scale is NaN, all weights are zeros.
  const float step = column.size == 0.0F || scale == 0.0F ? 0.0F : column.size / scale;
  const float min_value = candidates.low - column.zero_point;
  const float max_value = candidates.high - column.zero_point;
  for (int64_t i = 0; i < n; ++i) {
    float& v = w[i * kIntPanel];
    v = clamp(std::nearbyint(v * step), min_value, max_value);
  }
}

// Same, for one column of a group with second-level scales. w is replaced by the quantized values, and the
// second-level scales are stored 32 apart. Returns the first-level scale.
float round_two_level(const IntLayout& at, const IntCandidates& candidates, float* w, int64_t n,
                      int8_t* second_level_scales) {
  std::array<Column, IntLayout::kMaxSecondLevelScales> parts;
  float largest = 0.0F;
  float flaws = 0.0F;
  const auto each = [&](auto&& f) {
    for (int64_t begin = 0; begin < n; begin += at.second_level_group) {
      const int64_t part = begin / at.second_level_group;
      f(parts[static_cast<size_t>(part)], w + begin * kIntPanel, std::min(at.second_level_group, n - begin),
        second_level_scales[part * kIntPanel]);
    }
  };
  each([&](Column& part, float* own, int64_t count, int8_t&) {
    part = best_column(own, count, candidates, false);
    largest = std::max(largest, std::fabs(part.scale));
    flaws += part.scale - part.scale;
  });
  constexpr auto kMaxScale = static_cast<float>(IntLayout::kMaxSecondLevelScale);
  const float scale = stored_half(largest * (1.0F / kMaxScale));
  const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
  each([&](const Column& part, float* own, int64_t count, int8_t& stored) {
    float factor =
        part.size == 0.0F ? 0.0F : clamp(std::nearbyint(part.scale * inverse), -kMaxScale, kMaxScale);
    if (factor == 0.0F && part.size != 0.0F) factor = part.scale < 0.0F ? -1.0F : 1.0F;
    stored = static_cast<int8_t>(factor);
    round_column(own, count, candidates, part, factor * scale);
  });
  return flaws == 0.0F ? scale : std::numeric_limits<float>::quiet_NaN();
}

// Stores n quantized values along K of one group with `zeros` added.
void store_codes(const IntLayout& at, const float* codes, int64_t n,
                 const std::array<float, kIntPanel>& zeros, uint8_t* dst) {
  const int64_t steps = (n + at.step - 1) / at.step;
  for (int64_t i = 0; i < steps * at.step; ++i) {
    for (int64_t j = 0; j < kIntPanel; ++j) {
      const float d = i < n ? codes[i * kIntPanel + j] : 0.0F;
      const auto code = static_cast<uint8_t>(static_cast<int>(d + zeros[static_cast<size_t>(j)]));
      uint8_t& byte = dst[i / at.step * kIntPanel * 4 + j * 4 + i % 4];
      byte = at.step == 4 || i % 8 < 4 ? code : static_cast<uint8_t>(byte | (code << 4));
    }
  }
}

}  // namespace

IntLayout::IntLayout(const WeightFormat& format, int64_t row_size) {
  k = row_size;
  depth = (k + 7) / 8 * 8;
  group = format.group_size > 0 ? format.group_size : k;
  const bool whole_rows = format.activations == ActivationFormat::kFloat || format.activation_group == 0;
  activation_group = whole_rows ? k : format.activation_group;
  unit = std::min({group, activation_group, int64_t{kMaxUnit}, k});
  num_units = (k + unit - 1) / unit;
  step = format.code_bits == 8 ? 4 : 8;
  row_scale = format.code_bits == 8 && format.group_size == 0;
  zero_points = format.zero_points;
  second_level_group = format.second_level_group;
  header_bytes = row_scale || zero_points ? 128 : 64;
  if (second_level_group > 0)
    header_bytes = kSecondLevelAt + (group / second_level_group * kIntPanel + 63) / 64 * 64;
  const auto bytes = [&](int64_t n) { return header_bytes + (n + step - 1) / step * kIntPanel * 4; };
  group_bytes = bytes(group);
  const int64_t whole = k / group;
  panel_bytes = whole * group_bytes + (k % group > 0 ? bytes(k % group) : 0);
}

int32_t int_code(const IntLayout& at, const std::byte* weights, int64_t row, int64_t i) {
  const std::byte* begin = group_of(at, weights, row, i);
  const int64_t in_group = i % at.group;
  const auto byte = static_cast<int32_t>(
      begin[at.header_bytes + in_group / at.step * kIntPanel * 4 + row % kIntPanel * 4 + in_group % 4]);
  if (at.step == 4) return byte - 128;
  const int32_t code = in_group % 8 < 4 ? byte & 15 : byte >> 4;
  if (at.second_level_group > 0) {
    const int64_t factor =
        IntLayout::kSecondLevelAt + in_group / at.second_level_group * kIntPanel + row % kIntPanel;
    return (code - 8) * static_cast<int8_t>(begin[factor]);
  }
  return code - (at.zero_points ? static_cast<int32_t>(begin[64 + row % kIntPanel]) : 8);
}

float int_scale(const IntLayout& at, const std::byte* weights, int64_t row, int64_t i) {
  const std::byte* begin = group_of(at, weights, row, i);
  if (at.row_scale) return reinterpret_cast<const float*>(begin)[row % kIntPanel];
  return f16_to_f32(reinterpret_cast<const uint16_t*>(begin)[row % kIntPanel]);
}

void decode_int_row(const IntLayout& at, const std::byte* weights, int64_t row, float* out) {
  for (int64_t begin = 0; begin < at.k; begin += at.group) {
    const float scale = int_scale(at, weights, row, begin);
    const int64_t end = std::min(at.k, begin + at.group);
    for (int64_t i = begin; i < end; ++i) out[i] = scale * static_cast<float>(int_code(at, weights, row, i));
  }
}

float quantize_activations(const float* x, int64_t n, int8_t* codes) {
  float largest = 0;
  float flaws = 0;
  for (int64_t i = 0; i < n; ++i) {
    largest = std::max(std::fabs(x[i]), largest);
    flaws += x[i] - x[i];
  }
  if (flaws != 0.0F || largest < kSmallestSize) {
    std::fill(codes, codes + n, int8_t{0});
    return flaws != 0.0F ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
  }
  const float inverse = 127.0F / largest;
  for (int64_t i = 0; i < n; ++i) codes[i] = static_cast<int8_t>(std::nearbyint(x[i] * inverse));
  return largest / 127.0F;
}

IntCandidates int_candidates(int32_t code_bits, bool zero_points) {
  // The largest weight may be clipped, which improves the resolution for the others.
  static constexpr float kSteps8[] = {127.0F, 130.0F, 134.0F, 139.0F, 145.0F, 153.0F, 164.0F};
  // There is one more negative than positive value; the largest weight is mapped to that side, for either
  // sign.
  static constexpr float kSteps4[] = {-8.0F, -7.1F, -7.3F, -7.5F, -7.7F, -7.9F, -8.2F,
                                      -8.4F, -8.6F, -8.8F, -9.1F, -9.4F, -9.8F};
  static constexpr float kStepsZero[] = {15.0F, 14.2F, 14.6F, 15.4F, 15.8F,
                                         16.3F, 16.8F, 17.4F, 18.0F, 18.8F};
  if (code_bits == 8) return {kSteps8, static_cast<int>(std::size(kSteps8)), -127.0F, 127.0F};
  if (zero_points) return {kStepsZero, static_cast<int>(std::size(kStepsZero)), 0.0F, 15.0F};
  return {kSteps4, static_cast<int>(std::size(kSteps4)), -8.0F, 7.0F};
}

void quantize_panel(const IntLayout& at, float* weights, std::byte* dst) {
  const IntCandidates candidates = int_candidates(at.step == 4 ? 8 : 4, at.zero_points);
  for (int64_t begin = 0; begin < at.k; begin += at.group) {
    const int64_t n = std::min(at.group, at.k - begin);
    std::byte* group = dst + begin / at.group * at.group_bytes;
    std::array<float, kIntPanel> zeros;
    if (at.second_level_group > 0)
      std::fill(group + IntLayout::kSecondLevelAt, group + at.header_bytes, std::byte{0});
    for (int64_t j = 0; j < kIntPanel; ++j) {
      float* w = weights + begin * kIntPanel + j;
      Column column;
      if (at.second_level_group > 0) {
        auto* second_level_scales = reinterpret_cast<int8_t*>(group + IntLayout::kSecondLevelAt) + j;
        column.scale = round_two_level(at, candidates, w, n, second_level_scales);
      } else {
        column = best_column(w, n, candidates, at.zero_points);
        if (!at.row_scale) column.scale = stored_half(column.scale);
        round_column(w, n, candidates, column, column.scale);
      }
      if (at.row_scale) {
        reinterpret_cast<float*>(group)[j] = column.scale;
      } else {
        reinterpret_cast<uint16_t*>(group)[j] = f32_to_f16(column.scale);
      }
      if (at.zero_points) group[64 + j] = static_cast<std::byte>(column.zero_point);
      zeros[static_cast<size_t>(j)] = at.step == 4 ? 128.0F : at.zero_points ? column.zero_point : 8.0F;
    }
    store_codes(at, weights + begin * kIntPanel, n, zeros,
                reinterpret_cast<uint8_t*>(group + at.header_bytes));
  }
}

}  // namespace quire
