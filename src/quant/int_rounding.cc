#include "quant/int_rounding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "quant/codec.h"

namespace quire {
namespace {

// Step widths that are tried, as fractions of the width at which the largest weight just fits.
constexpr std::array<float, 13> kWidths4 = {1.0F,  1.03F, 0.97F, 0.94F, 0.91F, 0.88F, 0.85F,
                                            0.82F, 0.78F, 0.74F, 0.70F, 0.65F, 0.60F};
constexpr std::array<float, 5> kWidths8 = {1.0F, 0.98F, 0.95F, 0.91F, 0.86F};
constexpr std::array<float, 1> kWhole = {1.0F};
// Minimum step whose inverse is finite.
constexpr float kNegligible = 1e-36F;

std::span<const float> widths_of(const IntRounding& rounding) {
  if (rounding.largest_fits) return kWhole;
  if (rounding.bits > 5) return kWidths8;
  return kWidths4;
}

int32_t nearest(float v, int32_t zero, int32_t max_code) {
  const float code = std::nearbyint(v) + static_cast<float>(zero);
  return static_cast<int32_t>(std::clamp(code, 0.0F, static_cast<float>(max_code)));
}

}  // namespace

float stored_scale(DType type, float scale) {
  std::array<float, 1> place{};
  store_f32(type, place.data(), 0, scale);
  const float stored = load_f32(type, place.data(), 0);
  return std::isfinite(stored) ? stored : 65504.0F;
}

IntGroup choose_group(const IntRounding& rounding, std::span<const float> w,
                      std::span<const float> importance) {
  float low = 0.0F;
  float high = 0.0F;
  for (const float v : w) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  const int32_t max_code = rounding.max_code();
  const int32_t middle = 1 << (rounding.bits - 1);
  const auto top = static_cast<float>(max_code);
  // The symmetric range has one more negative value.
  const float widest = rounding.zero_points ? (high - low) / top
                                            : std::max(high / (top - static_cast<float>(middle)),
                                                       -low / static_cast<float>(middle));
  IntGroup best{0.0F, rounding.zero_points ? 0 : middle};
  if (!(widest > kNegligible)) return best;
  double min_error = std::numeric_limits<double>::infinity();
  for (const float width : widths_of(rounding)) {
    const float step = widest * width;
    IntGroup tried{step, rounding.zero_points ? nearest(-low / step, 0, max_code) : middle};
    const float inverse = 1.0F / step;
    if (!rounding.largest_fits) {
      double product = 0.0;
      double square = 0.0;
      for (size_t i = 0; i < w.size(); ++i) {
        const double weight = importance.empty() ? 1.0 : importance[i];
        const double code = nearest(w[i] * inverse, tried.zero_point, max_code) - tried.zero_point;
        product += weight * code * w[i];
        square += weight * code * code;
      }
      if (square > 0.0 && product > 0.0) tried.scale = static_cast<float>(product / square);
    }
    tried.scale = stored_scale(rounding.scales, tried.scale);
    double error = 0.0;
    for (size_t i = 0; i < w.size(); ++i) {
      const double difference = w[i] - tried.value(code_of(rounding, tried, w[i]));
      error += (importance.empty() ? 1.0 : importance[i]) * difference * difference;
    }
    if (error < min_error) {
      min_error = error;
      best = tried;
    }
  }
  return best;
}

int32_t code_of(const IntRounding& rounding, const IntGroup& group, float w) {
  if (!(group.scale > 0.0F)) return group.zero_point;
  return nearest(w / group.scale, group.zero_point, rounding.max_code());
}

IntMatrix::IntMatrix(const IntRounding& how, int64_t rows, int64_t columns, int64_t group)
    : rounding(how), n(rows), k(columns), group_size(group > 0 ? std::min(group, columns) : columns) {
  codes.resize(static_cast<size_t>(n * k));
  groups.resize(static_cast<size_t>(n * num_groups()));
}

void IntMatrix::decode_row(int64_t row, std::span<float> out) const {
  for (int64_t i = 0; i < k; ++i) out[static_cast<size_t>(i)] = group(row, group_at(i)).value(code(row, i));
}

IntMatrix round_to_nearest(ThreadPool& pool, const IntRounding& rounding, std::span<const float> w, int64_t n,
                           int64_t k, int64_t group_size, std::span<const float> importance) {
  IntMatrix out(rounding, n, k, group_size);
  pool.parallel_for(n, 1, [&](int64_t first, int64_t last, int) {
    for (int64_t row = first; row < last; ++row) {
      for (int64_t begin = 0; begin < k; begin += out.group_size) {
        const auto size = static_cast<size_t>(std::min(out.group_size, k - begin));
        const auto at = static_cast<size_t>(begin);
        const auto part = w.subspan(static_cast<size_t>(row * k) + at, size);
        const IntGroup group =
            choose_group(rounding, part, importance.empty() ? importance : importance.subspan(at, size));
        out.group(row, begin / out.group_size) = group;
        for (size_t i = 0; i < size; ++i)
          out.code(row, begin + static_cast<int64_t>(i)) =
              static_cast<uint8_t>(code_of(rounding, group, part[i]));
      }
    }
  });
  return out;
}

}  // namespace quire
