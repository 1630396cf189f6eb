#include "quantize/clipping.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace quire {
namespace {

constexpr int kWidths = 12;
constexpr float kNarrowest = 0.5F;

// The group whose values cover `width` times the range of the weights.
IntGroup group_of_width(const IntRounding& rounding, std::span<const float> w, float width) {
  const auto [min_weight, max_weight] = std::ranges::minmax(w);
  const float low = std::min(0.0F, min_weight) * width;
  const float high = std::max(0.0F, max_weight) * width;
  const auto top = static_cast<float>(rounding.max_code());
  const int32_t middle = 1 << (rounding.bits - 1);
  IntGroup group{0.0F, rounding.zero_points ? 0 : middle};
  const auto below = static_cast<float>(middle);
  const float step = rounding.zero_points ? (high - low) / top : std::max(high / (top - below), -low / below);
  group.scale = stored_scale(rounding.scales, step);
  if (rounding.zero_points && group.scale > 0.0F) {
    const float zero = std::nearbyint(-low / group.scale);
    group.zero_point = static_cast<int32_t>(std::clamp(zero, 0.0F, top));
  }
  return group;
}

// e H e^T, where H is the diagonal block of h [k, k] at `begin`.
double product_error(std::span<const float> e, std::span<const float> h, int64_t k, int64_t begin) {
  const auto size = static_cast<int64_t>(e.size());
  std::vector<float> sums(e.size());
  for (int64_t i = 0; i < size; ++i) {
    const float* row = h.data() + (begin + i) * k + begin;
    const float factor = e[static_cast<size_t>(i)];
    for (int64_t j = 0; j < size; ++j) sums[static_cast<size_t>(j)] += factor * row[j];
  }
  double sum = 0.0;
  for (size_t j = 0; j < sums.size(); ++j) sum += static_cast<double>(sums[j]) * e[j];
  return sum;
}

}  // namespace

IntMatrix round_to_products(ThreadPool& pool, const IntRounding& rounding, std::span<const float> w,
                            int64_t n, int64_t k, int64_t group_size, std::span<const float> h) {
  IntMatrix out(rounding, n, k, group_size);
  std::vector<float> importance(static_cast<size_t>(k));
  for (int64_t i = 0; i < k; ++i) importance[static_cast<size_t>(i)] = h[static_cast<size_t>(i * k + i)];
  const auto round_group = [&](int64_t row, int64_t begin) {
    const auto at = static_cast<size_t>(begin);
    const auto size = static_cast<size_t>(std::min(out.group_size, k - begin));
    const auto part = w.subspan(static_cast<size_t>(row * k) + at, size);
    std::vector<float> errors(size);
    double min_error = std::numeric_limits<double>::infinity();
    IntGroup& best = out.group(row, begin / out.group_size);
    const auto offer = [&](const IntGroup& group) {
      for (size_t i = 0; i < size; ++i) errors[i] = group.value(code_of(rounding, group, part[i])) - part[i];
      const double error = product_error(errors, h, k, begin);
      if (error < min_error) {
        min_error = error;
        best = group;
      }
    };
    offer(choose_group(rounding, part));
    offer(choose_group(rounding, part, std::span(importance).subspan(at, size)));
    for (int i = 0; i < kWidths; ++i)
      offer(group_of_width(rounding, part, 1.0F - (1.0F - kNarrowest) * static_cast<float>(i) / kWidths));
    for (size_t i = 0; i < size; ++i)
      out.code(row, begin + static_cast<int64_t>(i)) = static_cast<uint8_t>(code_of(rounding, best, part[i]));
  };
  pool.parallel_for(n, 1, [&](int64_t first, int64_t last, int) {
    for (int64_t row = first; row < last; ++row) {
      for (int64_t begin = 0; begin < k; begin += out.group_size) round_group(row, begin);
    }
  });
  return out;
}

}  // namespace quire
