#include "ops/outliers.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/parallel.h"
#include "quant/quant_layout.h"

namespace quire {
namespace {

std::span<const Outlier> outliers_of(const PackedLinear& w, int64_t row) {
  const int64_t* begin = w.outlier_rows.as<int64_t>() + row;
  return {w.outliers.as<Outlier>() + begin[0], static_cast<size_t>(begin[1] - begin[0])};
}

}  // namespace

void pack_outliers(std::span<const QuantizedMatrix* const> parts, PackedLinear& w) {
  std::vector<Outlier> all;
  std::vector<int64_t> rows = {0};
  for (const QuantizedMatrix* part : parts) {
    for (int64_t row = 0; row < part->rows(); ++row) {
      part->read_outliers(row, all);
      rows.push_back(static_cast<int64_t>(all.size()));
    }
  }
  if (all.empty()) return;
  for (const Outlier& outlier : all) {
    if (outlier.feature < 0 || outlier.feature >= w.k)
      throw Error("pack_quantized: an outlier of column " + std::to_string(outlier.feature) + " of " +
                  std::to_string(w.k));
  }
  w.outliers = Buffer(all.size() * sizeof(Outlier));
  std::memcpy(w.outliers.data(), all.data(), w.outliers.size());
  w.outlier_rows = Buffer(rows.size() * sizeof(int64_t));
  std::memcpy(w.outlier_rows.data(), rows.data(), w.outlier_rows.size());
}

void add_outliers(const OpContext& ctx, const TensorView& out, const TensorView& x, const PackedLinear& w) {
  if (w.outliers.size() == 0) return;
  const int64_t each = static_cast<int64_t>(w.outliers.size() / sizeof(Outlier)) / w.n + 1;
  parallel_ranges(ctx, w.n, row_grain(4 * each * x.rows()), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = 0; r < x.rows(); ++r) {
      const float* in = x.row<float>(r);
      float* row = out.row<float>(r);
      for (int64_t j = begin; j < end; ++j) {
        float sum = 0.0F;
        for (const Outlier& outlier : outliers_of(w, j)) sum += in[outlier.feature] * outlier.value;
        row[j] += sum;
      }
    }
  });
}

void add_large_activations(const OpContext& ctx, const TensorView& out, const TensorView& x,
                           const PackedLinear& w) {
  constexpr size_t kMaxFound = 64;
  constexpr int64_t kPanelRows = QuantLayout::kPanel;
  const float threshold = w.format.outlier_threshold;
  if (threshold == 0.0F) return;
  const QuantLayout at(w.format.quantized, w.k);
  const int32_t* order = w.column_order.size() > 0 ? w.column_order.as<int32_t>() : nullptr;
  // Each range looks through the rows once.
  const int64_t panels = at.num_panels(w.n);
  const int64_t grain = std::max<int64_t>(1, panels / (4 * num_threads(ctx)));
  parallel_ranges(ctx, panels, grain, [&](int64_t begin, int64_t end, int) {
    std::array<int64_t, kMaxFound> found;
    std::array<float, kMaxFound> values;
    std::array<float, kPanelRows> weights;
    for (int64_t r = 0; r < x.rows(); ++r) {
      const float* in = x.row<float>(r);
      for (int64_t i = 0; i < w.k;) {
        size_t count = 0;
        for (; i < w.k && count < kMaxFound; ++i) {
          const float v = in[order == nullptr ? i : order[i]];
          if (!is_large(v, threshold)) continue;
          found[count] = i;
          values[count++] = v;
        }
        for (int64_t p = begin; p < end && count > 0; ++p) {
          std::array<float, kPanelRows> sums = {};
          for (size_t c = 0; c < count; ++c) {
            decode_quantized_column(at, w.data.data(), p, found[c], weights.data());
            for (size_t j = 0; j < weights.size(); ++j) sums[j] += values[c] * weights[j];
          }
          float* row = out.row<float>(r) + p * kPanelRows;
          for (int64_t j = 0; j < std::min(kPanelRows, w.n - p * kPanelRows); ++j)
            row[j] += sums[static_cast<size_t>(j)];
        }
      }
    }
  });
}

void add_outliers_of_row(const PackedLinear& w, int64_t row, float* weights) {
  if (w.outliers.size() == 0) return;
  for (const Outlier& outlier : outliers_of(w, row)) weights[outlier.feature] += outlier.value;
}

}  // namespace quire
