#include "quant/float_rounding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "base/thread_pool.h"
#include "tensor/dtype.h"

namespace quire {
namespace {

constexpr float kLargestE4m3 = 448.0F;
constexpr float kSmallestScale = 1e-38F;

float largest_of(std::span<const float> w) {
  float largest = 0.0F;
  for (const float v : w) largest = std::max(largest, std::fabs(v));
  return largest;
}

}  // namespace

Float8Matrix round_to_e4m3(ThreadPool& pool, std::span<const float> w, int64_t n, int64_t k,
                           int64_t block_rows, int64_t block_columns) {
  Float8Matrix out;
  out.block_rows = block_rows;
  out.block_columns = block_columns;
  const int64_t across = (k + block_columns - 1) / block_columns;
  const int64_t down = (n + block_rows - 1) / block_rows;
  out.codes.resize(static_cast<size_t>(n * k));
  out.scales.resize(static_cast<size_t>(down * across));
  pool.parallel_for(down, 1, [&](int64_t first, int64_t last, int) {
    for (int64_t block = first * across; block < last * across; ++block) {
      const int64_t row = block / across * block_rows;
      const int64_t column = block % across * block_columns;
      const int64_t width = std::min(block_columns, k - column);
      const int64_t end = std::min(n, row + block_rows);
      float largest = 0.0F;
      for (int64_t r = row; r < end; ++r)
        largest = std::max(
            largest, largest_of(w.subspan(static_cast<size_t>(r * k + column), static_cast<size_t>(width))));
      // A scale of 0 would give 0 / 0 for a block of zeros.
      const float scale = largest > kSmallestScale ? largest / kLargestE4m3 : 1.0F;
      out.scales[static_cast<size_t>(block)] = scale;
      for (int64_t r = row; r < end; ++r) {
        for (int64_t c = column; c < column + width; ++c) {
          const auto at = static_cast<size_t>(r * k + c);
          out.codes[at] = f32_to_f8e4m3(w[at] / scale);
        }
      }
    }
  });
  return out;
}

TableBlocks round_to_table(ThreadPool& pool, std::span<const float> w, std::span<const float> table,
                           int64_t block) {
  std::array<uint8_t, 16> order{};
  std::iota(order.begin(), order.end(), uint8_t{0});
  std::ranges::stable_sort(order, {}, [&](uint8_t code) { return table[code]; });
  std::array<float, 15> bounds{};
  for (size_t i = 0; i < bounds.size(); ++i) bounds[i] = (table[order[i]] + table[order[i + 1]]) / 2;

  const auto size = static_cast<int64_t>(w.size());
  const int64_t whole = size / block;
  const int64_t blocks = (size + block - 1) / block;
  TableBlocks out;
  out.codes.resize(w.size());
  out.scales.resize(static_cast<size_t>(blocks));
  pool.parallel_for(blocks, 16, [&](int64_t first, int64_t last, int) {
    for (int64_t b = first; b < last; ++b) {
      const auto begin = static_cast<size_t>(b * block);
      const auto part = w.subspan(begin, static_cast<size_t>(std::min(block, size - b * block)));
      const float largest = largest_of(part);
      out.scales[static_cast<size_t>(b)] = b < whole ? largest : std::max(largest, kSmallestScale);
      const float inverse = 1.0F / std::max(largest, kSmallestScale);
      for (size_t i = 0; i < part.size(); ++i) {
        // bitsandbytes divides in a short last block, and multiplies by the inverse elsewhere.
        const float v = std::clamp(
            b < whole ? part[i] * inverse : part[i] / std::max(largest, kSmallestScale), -1.0F, 1.0F);
        const auto at = std::ranges::lower_bound(bounds, v) - bounds.begin();
        out.codes[begin + i] = order[static_cast<size_t>(at)];
      }
    }
  });
  return out;
}

std::span<const float> dynamic_values() {
  static const std::array<float, 256> values = [] {
    std::array<float, 256> v{};
    size_t at = 0;
    for (int exponent = 0; exponent < 7; ++exponent) {
      const int items = 1 << exponent;
      // Midpoints between `items` + 1 points from 0.1 to 1.
      const auto point = [&](int i) {
        const float step = 0.9F / static_cast<float>(items);
        return i < (items + 1) / 2 ? 0.1F + step * static_cast<float>(i)
                                   : 1.0F - step * static_cast<float>(items - i);
      };
      for (int i = 0; i < items; ++i) {
        const float middle = (point(i) + point(i + 1)) / 2.0F;
        const float value = static_cast<float>(std::pow(10.0, exponent - 6)) * middle;
        v[at++] = value;
        v[at++] = -value;
      }
    }
    v[at++] = 0.0F;
    v[at++] = 1.0F;
    std::ranges::sort(v);
    return v;
  }();
  return values;
}

NestedScales round_scales(std::span<const float> scales) {
  NestedScales out;
  double sum = 0.0;
  for (const float scale : scales) sum += scale;
  out.offset = scales.empty() ? 0.0F : static_cast<float>(sum / static_cast<double>(scales.size()));
  const auto values = dynamic_values();
  out.codes.resize(scales.size());
  for (size_t begin = 0; begin < scales.size(); begin += kNestedBlock) {
    const size_t end = std::min(scales.size(), begin + kNestedBlock);
    float largest = 0.0F;
    for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(scales[i] - out.offset));
    out.scales.push_back(largest);
    for (size_t i = begin; i < end; ++i) {
      const float v = largest > 0.0F ? (scales[i] - out.offset) / largest : 0.0F;
      auto at = std::ranges::lower_bound(values, v);
      if (at == values.end() || (at != values.begin() && v - *(at - 1) <= *at - v)) --at;
      out.codes[i] = static_cast<uint8_t>(at - values.begin());
    }
  }
  return out;
}

}  // namespace quire
