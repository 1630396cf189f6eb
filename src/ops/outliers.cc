#include "ops/outliers.h"

#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/parallel.h"

namespace quire {
namespace {

std::span<const Outlier> outliers_of(const PackedLinear& w, int64_t row) {
  const int64_t* begin = w.outlier_rows.as<int64_t>() + row;
  return {w.outliers.as<Outlier>() + begin[0], static_cast<size_t>(begin[1] - begin[0])};
}

}  // namespace

void pack_outliers(std::span<const CodedMatrix* const> parts, PackedLinear& w) {
  std::vector<Outlier> all;
  std::vector<int64_t> rows = {0};
  for (const CodedMatrix* part : parts) {
    for (int64_t row = 0; row < part->rows(); ++row) {
      part->read_outliers(row, all);
      rows.push_back(static_cast<int64_t>(all.size()));
    }
  }
  if (all.empty()) return;
  for (const Outlier& outlier : all) {
    if (outlier.feature < 0 || outlier.feature >= w.k)
      throw Error("pack_coded: an outlier of column " + std::to_string(outlier.feature) + " of " +
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

void add_outliers_of_row(const PackedLinear& w, int64_t row, float* weights) {
  if (w.outliers.size() == 0) return;
  for (const Outlier& outlier : outliers_of(w, row)) weights[outlier.feature] += outlier.value;
}

}  // namespace quire
