// Quantized matrices of the reference table.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "ops/outliers.h"
#include "ops/packing.h"
#include "ops/parallel.h"
#include "ops/reference.h"
#include "quant/activation_slices.h"
#include "quant/int_layout.h"
#include "quant/quant_layout.h"

namespace quire::reference {
namespace {

// Weights decoded at a time.
constexpr int64_t kRun = 256;

// One column of the product, whose weights are decoded once for all rows of activations.
struct Column {
  int64_t index;
  std::vector<uint8_t> codes;  // [k]
  std::vector<float> numbers;  // [k]: the weights without their scales, if they are multiplied as float32
};

void load_column(const QuantLayout& at, const PackedLinear& w, bool whole, Column& column) {
  const std::byte* weights = w.data.data();
  column.codes.resize(static_cast<size_t>(at.k));
  load_row_codes(at, weights, column.index, 0, at.k, column.codes.data());
  if (whole) return;
  column.numbers.resize(static_cast<size_t>(at.k));
  if (at.format.values == CodeValues::kRowTable) {
    decode_quantized(at, weights, column.index, 0, at.k, column.numbers.data());
  } else {
    std::ranges::transform(column.codes, column.numbers.begin(),
                           [&](uint8_t code) { return at.format.table[code]; });
  }
}

// Groups in order, the products of each in order. Weights with a table per row have no scale (1).
float float_product(const QuantLayout& at, const PackedLinear& w, const Column& column,
                    std::span<const float> in) {
  const bool row_table = at.format.values == CodeValues::kRowTable;
  float sum = 0;
  for (int64_t begin = 0; begin < at.k;) {
    const int64_t block = begin / at.block * at.block;
    const int64_t end = std::min({at.k, block + at.block, begin + at.group});
    float part = 0;
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      part = std::fma(in[i], column.numbers[i], part);
    const float scale = row_table ? 1.0F : quant_group(at, w.data.data(), column.index, begin).scale;
    sum = std::fma(part, scale, sum);
    begin = end;
  }
  return sum;
}

// A row of activations as int8, or as int8 slices (quant/activation_slices.h), in packed order.
struct WholeRow {
  int num_slices;
  std::vector<int8_t> slices;  // [num_slices][k]
  std::vector<float> scales;   // [num_units]
};

WholeRow round_row(const QuantLayout& at, const IntBlocking& units, int num_slices,
                   std::span<const float> in) {
  WholeRow row{num_slices, std::vector<int8_t>(static_cast<size_t>(num_slices) * in.size()),
               std::vector<float>(static_cast<size_t>(units.num_units))};
  for (int64_t begin = 0; begin < at.k; begin += units.activation_group) {
    const int64_t n = std::min(units.activation_group, at.k - begin);
    const float* x = in.data() + begin;
    int8_t* slices = row.slices.data() + begin;
    const float scale = num_slices == 1 ? quantize_activations(x, n, slices)
                                        : slice_activations(x, n, num_slices, slices, at.k);
    for (int64_t i = begin; i < begin + n; i += units.unit)
      row.scales[static_cast<size_t>(i / units.unit)] = scale;
  }
  return row;
}

// As defined at IntBlocking.
float whole_product(const QuantLayout& at, const PackedLinear& w, const Column& column,
                    const IntegerValues& numbers, const IntBlocking& units, const WholeRow& row) {
  const QuantFormat& format = at.format;
  float sum = 0;
  for (int64_t begin = 0; begin < at.k; begin += units.unit) {
    const int64_t end = std::min(at.k, begin + units.unit);
    const QuantGroup group = quant_group(at, w.data.data(), column.index, begin);
    const int32_t zero_point = numbers.table || format.group_zero_points ? 0 : group.zero_point;
    std::array<int32_t, kFloatSlices> products = {};
    std::array<int32_t, kFloatSlices> minus_x = {};
    for (int d = 0; d < row.num_slices; ++d) {
      const int8_t* slice = row.slices.data() + d * at.k;
      int32_t product = 0;
      int32_t minus = 0;
      for (int64_t i = begin; i < end; ++i) {
        const uint8_t code = column.codes[static_cast<size_t>(i)];
        product += (numbers.table ? numbers.numbers[code] : code - zero_point) * slice[i];
        minus -= slice[i];
      }
      products[static_cast<size_t>(d)] = product;
      minus_x[static_cast<size_t>(d)] = minus;
    }
    const float x_scale = row.scales[static_cast<size_t>(begin / units.unit)];
    sum = std::fma(join_slices(products.data(), row.num_slices), x_scale * (group.scale * numbers.step), sum);
    const float shift = format.group_zero_points
                            ? std::fma(group.scale, static_cast<float>(group.zero_point), group.minimum)
                            : group.minimum;
    if (format.minima || format.group_zero_points)
      sum = std::fma(shift, x_scale * join_slices(minus_x.data(), row.num_slices), sum);
  }
  return sum;
}

}  // namespace

PackedLinear pack_quantized(const OpContext& ctx, std::span<const QuantizedMatrix* const> parts) {
  PackedLinear packed = make_packed_quantized(parts);
  const QuantLayout at(packed.format.quantized, packed.k);
  parallel_ranges(ctx, at.num_panels(packed.n), 1, [&](int64_t begin, int64_t end, int) {
    QuantizedPacker packer(at);
    for (int64_t p = begin; p < end; ++p)
      packer.pack(parts, p * QuantLayout::kPanel, packed.data.data() + p * at.panel_bytes);
  });
  return packed;
}

void linear_quantized(const OpContext& ctx, const ops::Linear& op) {
  const QuantLayout at(op.w.format.quantized, op.w.k);
  const int32_t* order = op.w.column_order.size() > 0 ? op.w.column_order.as<int32_t>() : nullptr;
  const IntBlocking units(at, op.w.format.token_scales);
  const auto whole = integer_values(at.format);
  const int num_slices = num_activation_slices(op.w.format.activations);
  const float threshold = whole && num_slices == 1 ? op.w.format.outlier_threshold : 0.0F;
  parallel_ranges(ctx, op.w.n, row_grain(16 * op.w.k), [&](int64_t begin, int64_t end, int) {
    std::vector<std::vector<float>> in(static_cast<size_t>(op.x.rows()));
    std::vector<WholeRow> rows(in.size());
    for (size_t r = 0; r < in.size(); ++r) {
      in[r].resize(static_cast<size_t>(op.w.k));
      for (size_t i = 0; i < in[r].size(); ++i) {
        const float v =
            op.x.row<float>(static_cast<int64_t>(r))[order == nullptr ? static_cast<int64_t>(i) : order[i]];
        in[r][i] = is_large(v, threshold) ? 0.0F : v;  // large activations are multiplied separately
      }
      if (whole) rows[r] = round_row(at, units, num_slices, in[r]);
    }
    Column column{};
    for (column.index = begin; column.index < end; ++column.index) {
      load_column(at, op.w, whole.has_value(), column);
      for (int64_t r = 0; r < op.x.rows(); ++r) {
        const auto row = static_cast<size_t>(r);
        float sum = whole ? whole_product(at, op.w, column, *whole, units, rows[row])
                          : float_product(at, op.w, column, in[row]);
        if (op.w.bias.size() > 0) sum += op.w.bias.as<float>()[column.index];
        if (op.residual.data != nullptr) sum += op.residual.row<float>(r)[column.index];
        op.out.row<float>(r)[column.index] = sum;
      }
    }
  });
  if (threshold > 0.0F) add_large_activations(ctx, op.out, op.x, op.w);
  add_outliers(ctx, op.out, op.x, op.w);
}

void embedding_packed_quantized(const OpContext& ctx, const ops::PackedEmbedding& op) {
  const QuantLayout at(op.table.format.quantized, op.table.k);
  const int32_t* order = op.table.column_order.size() > 0 ? op.table.column_order.as<int32_t>() : nullptr;
  parallel_ranges(ctx, static_cast<int64_t>(op.ids.size()), row_grain(8 * op.table.k),
                  [&](int64_t begin, int64_t end, int) {
                    std::array<float, kRun> weights;
                    for (int64_t r = begin; r < end; ++r) {
                      float* row = op.out.row<float>(r);
                      for (int64_t first = 0; first < op.table.k; first += kRun) {
                        const int64_t last = std::min(op.table.k, first + kRun);
                        decode_quantized(at, op.table.data.data(), op.ids[static_cast<size_t>(r)], first,
                                         last, weights.data());
                        for (int64_t i = first; i < last; ++i)
                          row[order == nullptr ? i : order[i]] = weights[static_cast<size_t>(i - first)];
                      }
                      add_outliers_of_row(op.table, op.ids[static_cast<size_t>(r)], row);
                    }
                  });
}

}  // namespace quire::reference
