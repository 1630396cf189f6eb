// Quantized matrices with random codes, for tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "ops/reference.h"
#include "quant/quantized_matrix.h"
#include "tensor/dtype.h"

namespace quire::test {

class RandomCodes : public QuantizedMatrix {
 public:
  RandomCodes(const QuantFormat& format, int64_t rows, int64_t cols, uint32_t seed,
              std::vector<int32_t> order = {})
      : format_(format), rows_(rows), cols_(cols), order_(std::move(order)) {
    group_ = format.group_size == 0 ? cols : format.group_size;
    block_ = format.block_size == 0 ? cols : format.block_size;
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal(0.0F, 0.02F);
    const auto bytes = [&](int64_t n, int32_t end) {
      std::vector<uint8_t> v(static_cast<size_t>(n));
      for (auto& b : v) b = static_cast<uint8_t>(rng() % static_cast<uint32_t>(end));
      return v;
    };
    const auto scales = [&](int64_t n) {
      std::vector<float> v(static_cast<size_t>(n));
      for (auto& s : v) {
        s = normal(rng);
        if (format.half_scales) s = f16_to_f32(f32_to_f16(s));
        if (format.bfloat_scales) s = bf16_to_f32(f32_to_bf16(s));
      }
      return v;
    };
    codes_ = bytes(rows * cols, 1 << format.code_bits);
    // Codes that represent NaN are used only by tests that set them.
    for (auto& c : codes_) {
      if (format.values == CodeValues::kTable && format.table[c] != format.table[c]) c = 1;
    }
    block_scales_ = scales(rows * blocks() * scales_of_block(format));
    block_minima_ = scales(rows * blocks());
    group_scales_ = bytes(rows * groups(), format.group_scale_table.empty() ? 256 : 127);
    group_minima_ = bytes(rows * groups(), 64);
    group_zero_points_ = bytes(rows * groups(), 1 << format.code_bits);
    outliers_.resize(static_cast<size_t>(rows));
  }
  const QuantFormat& format() const override { return format_; }
  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  std::span<const int32_t> column_order() const override { return order_; }
  void read_rows(int64_t first, std::span<const QuantizedRow> out) const override {
    for (size_t i = 0; i < out.size(); ++i) {
      const int64_t row = first + static_cast<int64_t>(i);
      copy(codes_, row, out[i].codes);
      copy(block_scales_, row, out[i].block_scales);
      copy(block_minima_, row, out[i].block_minima);
      copy(group_scales_, row, out[i].group_scales);
      copy(group_minima_, row, out[i].group_minima);
      copy(group_zero_points_, row, out[i].group_zero_points);
    }
  }
  int64_t num_outliers() const override {
    int64_t sum = 0;
    for (const auto& row : outliers_) sum += static_cast<int64_t>(row.size());
    return sum;
  }
  void read_outliers(int64_t row, std::vector<Outlier>& out) const override {
    const auto& own = outliers_[static_cast<size_t>(row)];
    out.insert(out.end(), own.begin(), own.end());
  }
  void set_code(int64_t row, int64_t i, uint8_t code) { codes_[at(row, i, cols_)] = code; }

  // The weight in column i of the stored order, computed according to quantized_matrix.h.
  float weight(int64_t row, int64_t i) const {
    float sum = stored_weight(row, i);
    for (const Outlier& outlier : outliers_[static_cast<size_t>(row)]) {
      if (outlier.feature == feature(i)) sum += outlier.value;
    }
    return sum;
  }
  // Adds some outliers to some rows.
  void add_outliers(uint32_t seed) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal(0.0F, 0.3F);
    for (auto& row : outliers_) {
      for (uint32_t i = rng() % 4; i > 0; --i)
        row.push_back({static_cast<int32_t>(rng() % static_cast<uint32_t>(cols_)), normal(rng)});
    }
  }
  // The input feature of column i of the stored order.
  int64_t feature(int64_t i) const { return order_.empty() ? i : order_[static_cast<size_t>(i)]; }

 private:
  float stored_weight(int64_t row, int64_t i) const {
    const uint8_t code = codes_[at(row, i, cols_)];
    if (format_.values == CodeValues::kRowTable)
      return block_scales_[at(row, code, scales_of_block(format_))];
    float scale = block_scales_[at(row, i / block_, blocks())];
    float minimum = format_.minima ? block_minima_[at(row, i / block_, blocks())] : 0.0F;
    const size_t g = at(row, i / group_, groups());
    if (format_.two_levels()) {
      scale *= format_.group_scale_table.empty() ? static_cast<float>(static_cast<int8_t>(group_scales_[g]))
                                                 : format_.group_scale_table[group_scales_[g]];
      if (format_.minima) minimum *= static_cast<float>(group_minima_[g]);
    }
    const float value =
        format_.values == CodeValues::kTable
            ? format_.table[code]
            : static_cast<float>(code) -
                  static_cast<float>(format_.group_zero_points ? group_zero_points_[g] : format_.zero_point);
    const volatile float product = scale * value;
    return format_.minima ? product - minimum : product;
  }
  static size_t at(int64_t row, int64_t i, int64_t size) { return static_cast<size_t>(row * size + i); }
  int64_t groups() const { return (cols_ + group_ - 1) / group_; }
  int64_t blocks() const { return (cols_ + block_ - 1) / block_; }
  template <class T, class U>
  static void copy(const std::vector<T>& all, int64_t row, std::span<U> out) {
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<U>(all[static_cast<size_t>(row) * out.size() + i]);
  }

  QuantFormat format_;
  int64_t rows_;
  int64_t cols_;
  int64_t group_;
  int64_t block_;
  std::vector<int32_t> order_;
  std::vector<uint8_t> codes_;
  std::vector<float> block_scales_;
  std::vector<float> block_minima_;
  std::vector<uint8_t> group_scales_;
  std::vector<uint8_t> group_minima_;
  std::vector<uint8_t> group_zero_points_;
  std::vector<std::vector<Outlier>> outliers_;  // outliers per row
};

// The matrix as float32 [rows, cols], decoded from its packed form.
inline std::vector<float> decode(const QuantizedMatrix& matrix) {
  const std::vector<const QuantizedMatrix*> parts = {&matrix};
  const PackedLinear packed = reference_ops().pack_quantized({}, parts);
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < matrix.rows(); ++i) ids.push_back(i);
  std::vector<float> rows(static_cast<size_t>(matrix.rows() * matrix.cols()));
  reference_ops().run({}, ops::PackedEmbedding{
                              .out = make_view(rows.data(), DType::kF32, Shape{matrix.rows(), matrix.cols()}),
                              .table = packed,
                              .ids = ids});
  return rows;
}

}  // namespace quire::test
