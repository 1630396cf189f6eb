// Matrices of codes of the plain table.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "ops/checks.h"
#include "ops/outliers.h"
#include "ops/parallel.h"
#include "ops/reference.h"
#include "quant/activation_digits.h"
#include "quant/coded_layout.h"
#include "quant/int_layout.h"

namespace quire::reference {
namespace {

// Weights that are decoded at once.
constexpr int64_t kRun = 256;

// Groups one after the other, the products of each in order. Weights of rows' own tables have no scale: 1.
float float_product(const CodedLayout& at, const PackedLinear& w, int64_t column, std::span<const float> in) {
  const bool row_table = at.format.values == CodeValues::kRowTable;
  float sum = 0;
  for (int64_t begin = 0; begin < at.k;) {
    const int64_t block = begin / at.block * at.block;
    const int64_t end = std::min({at.k, block + at.block, begin + at.group});
    float part = 0;
    for (int64_t i = begin; i < end; ++i) {
      float number;
      if (row_table) {
        decode_coded(at, w.data.data(), column, i, i + 1, &number);
      } else {
        number = at.format.table[static_cast<size_t>(coded_code(at, w.data.data(), column, i))];
      }
      part = std::fma(in[static_cast<size_t>(i)], number, part);
    }
    const float scale = row_table ? 1.0F : coded_group(at, w.data.data(), column, begin).scale;
    sum = std::fma(part, scale, sum);
    begin = end;
  }
  return sum;
}

// A row of activations as int8 numbers, or in more digits (quant/activation_digits.h), in packed order.
struct WholeRow {
  int num_digits;
  std::vector<int8_t> digits;  // [num_digits][k]
  std::vector<float> scales;   // [num_units]
};

WholeRow round_row(const CodedLayout& at, int num_digits, std::span<const float> in) {
  const CodedIntUnits units(at);
  WholeRow row{num_digits, std::vector<int8_t>(static_cast<size_t>(num_digits) * in.size()),
               std::vector<float>(static_cast<size_t>(units.num_units))};
  for (int64_t begin = 0; begin < at.k; begin += units.activation_group) {
    const int64_t n = std::min(units.activation_group, at.k - begin);
    const float* x = in.data() + begin;
    int8_t* digits = row.digits.data() + begin;
    const float scale = num_digits == 1 ? quantize_activations(x, n, digits)
                                        : split_activations(x, n, num_digits, digits, at.k);
    for (int64_t i = begin; i < begin + n; i += units.unit)
      row.scales[static_cast<size_t>(i / units.unit)] = scale;
  }
  return row;
}

// As CodedIntUnits says.
float whole_product(const CodedLayout& at, const PackedLinear& w, int64_t column, const CodedNumbers& numbers,
                    const WholeRow& row) {
  const CodedIntUnits units(at);
  const CodedFormat& format = at.format;
  float sum = 0;
  for (int64_t begin = 0; begin < at.k; begin += units.unit) {
    const int64_t end = std::min(at.k, begin + units.unit);
    const CodedGroup group = coded_group(at, w.data.data(), column, begin);
    std::array<int32_t, kFloatDigits> products = {};
    std::array<int32_t, kFloatDigits> minus_x = {};
    for (int64_t i = begin; i < end; ++i) {
      const int32_t code = coded_code(at, w.data.data(), column, i);
      const int32_t number = numbers.table ? numbers.numbers[static_cast<size_t>(code)]
                                           : code - (format.group_zeros ? 0 : group.zero);
      for (int d = 0; d < row.num_digits; ++d) {
        const int32_t x = row.digits[static_cast<size_t>(d * at.k + i)];
        products[static_cast<size_t>(d)] += number * x;
        minus_x[static_cast<size_t>(d)] -= x;
      }
    }
    const float x_scale = row.scales[static_cast<size_t>(begin / units.unit)];
    sum = std::fma(join_digits(products.data(), row.num_digits), x_scale * (group.scale * numbers.step), sum);
    const float shift = format.group_zeros
                            ? std::fma(group.scale, static_cast<float>(group.zero), group.minimum)
                            : group.minimum;
    if (format.minima || format.group_zeros)
      sum = std::fma(shift, x_scale * join_digits(minus_x.data(), row.num_digits), sum);
  }
  return sum;
}

}  // namespace

PackedLinear pack_coded(const OpContext& ctx, std::span<const CodedMatrix* const> parts) {
  PackedLinear packed = make_packed_coded(parts);
  const CodedLayout at(packed.format.coded, packed.k);
  parallel_ranges(ctx, at.num_panels(packed.n), 1, [&](int64_t begin, int64_t end, int) {
    CodedPacker packer(at);
    for (int64_t p = begin; p < end; ++p)
      packer.pack(parts, p * CodedLayout::kPanel, packed.data.data() + p * at.panel_bytes);
  });
  return packed;
}

void linear_coded(const OpContext& ctx, const TensorView& out, const TensorView& x, const PackedLinear& w,
                  const TensorView& residual) {
  const CodedLayout at(w.format.coded, w.k);
  const int32_t* order = w.column_order.size() > 0 ? w.column_order.as<int32_t>() : nullptr;
  const auto whole = coded_numbers(at.format);
  const int num_digits = num_activation_digits(w.format.activations);
  const float threshold = whole && num_digits == 1 ? w.format.outlier_threshold : 0.0F;
  parallel_ranges(ctx, w.n, row_grain(16 * w.k), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = 0; r < x.rows(); ++r) {
      std::vector<float> in(static_cast<size_t>(w.k));
      for (size_t i = 0; i < in.size(); ++i)
        in[i] = x.row<float>(r)[order == nullptr ? static_cast<int64_t>(i) : order[i]];
      // Large ones are multiplied apart.
      for (float& v : in) v = is_large(v, threshold) ? 0.0F : v;
      const WholeRow row = whole ? round_row(at, num_digits, in) : WholeRow{};
      for (int64_t column = begin; column < end; ++column) {
        float sum = whole ? whole_product(at, w, column, *whole, row) : float_product(at, w, column, in);
        if (w.bias.size() > 0) sum += w.bias.as<float>()[column];
        if (residual.data != nullptr) sum += residual.row<float>(r)[column];
        out.row<float>(r)[column] = sum;
      }
    }
  });
  if (threshold > 0.0F) add_large_activations(ctx, out, x, w);
  add_outliers(ctx, out, x, w);
}

void embedding_packed_coded(const OpContext& ctx, const TensorView& out, const PackedLinear& table,
                            std::span<const int32_t> ids) {
  const CodedLayout at(table.format.coded, table.k);
  const int32_t* order = table.column_order.size() > 0 ? table.column_order.as<int32_t>() : nullptr;
  parallel_ranges(
      ctx, static_cast<int64_t>(ids.size()), row_grain(8 * table.k), [&](int64_t begin, int64_t end, int) {
        std::array<float, kRun> weights;
        for (int64_t r = begin; r < end; ++r) {
          float* row = out.row<float>(r);
          for (int64_t first = 0; first < table.k; first += kRun) {
            const int64_t last = std::min(table.k, first + kRun);
            decode_coded(at, table.data.data(), ids[static_cast<size_t>(r)], first, last, weights.data());
            for (int64_t i = first; i < last; ++i)
              row[order == nullptr ? i : order[i]] = weights[static_cast<size_t>(i - first)];
          }
          add_outliers_of_row(table, ids[static_cast<size_t>(r)], row);
        }
      });
}

}  // namespace quire::reference
