// A selection of rows of a quantized matrix, in any order. Load time only.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "quant/quantized_matrix.h"

namespace quire {

// Row i is row rows[i] of `whole`, which must outlive this object.
class QuantizedRows : public QuantizedMatrix {
 public:
  QuantizedRows(const QuantizedMatrix& whole, std::vector<int64_t> rows)
      : whole_(whole), rows_(std::move(rows)) {}

  const QuantFormat& format() const override { return whole_.format(); }
  int64_t rows() const override { return static_cast<int64_t>(rows_.size()); }
  int64_t cols() const override { return whole_.cols(); }
  std::span<const int32_t> column_order() const override { return whole_.column_order(); }
  int64_t num_outliers() const override {
    std::vector<Outlier> all;
    for (int64_t row = 0; row < rows(); ++row) read_outliers(row, all);
    return static_cast<int64_t>(all.size());
  }
  void read_outliers(int64_t row, std::vector<Outlier>& out) const override {
    whole_.read_outliers(rows_[static_cast<size_t>(row)], out);
  }
  void read_rows(int64_t first, std::span<const QuantizedRow> out) const override {
    const auto rows = std::span(rows_).subspan(static_cast<size_t>(first), out.size());
    // Consecutive rows are read at once.
    for (size_t begin = 0; begin < rows.size();) {
      size_t end = begin + 1;
      while (end < rows.size() && rows[end] == rows[end - 1] + 1) ++end;
      whole_.read_rows(rows[begin], out.subspan(begin, end - begin));
      begin = end;
    }
  }

 private:
  const QuantizedMatrix& whole_;
  std::vector<int64_t> rows_;
};

}  // namespace quire
