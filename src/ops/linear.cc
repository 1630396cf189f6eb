// Shape checks, costs and reference implementations of matrix products and embedding lookups.
#include "ops/linear.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/packing.h"
#include "ops/parallel.h"
#include "ops/reference.h"
#include "ops/rows.h"
#include "ops/shape_check.h"
#include "quant/codec.h"

namespace quire {
namespace {

constexpr int64_t kPanel = 32;

int64_t panel_offset(int64_t row, int64_t k) {
  return (row / kPanel) * k * kPanel + row % kPanel;
}

void multiply(const OpContext& ctx, const ops::Linear& op) {
  if (is_integer(op.w.format)) return reference::linear_int(ctx, op);
  if (is_quantized(op.w.format)) return reference::linear_quantized(ctx, op);
  const int64_t m = op.x.rows();
  const int64_t panels = (op.w.n + kPanel - 1) / kPanel;
  const auto bytes = static_cast<int64_t>(dtype_size(op.w.format.dtype));
  parallel_ranges(ctx, panels, row_grain(m * op.w.k * kPanel), [&](int64_t begin, int64_t end, int) {
    std::array<float, kPanel> sum;
    std::array<float, kPanel> weight;
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kPanel;
      const int64_t columns = std::min(kPanel, op.w.n - first);
      for (int64_t r = 0; r < m; ++r) {
        const float* in = op.x.row<float>(r);
        sum.fill(0.0F);
        for (int64_t i = 0; i < op.w.k; ++i) {
          decode_f32(op.w.format.dtype, op.w.data.data() + (p * op.w.k + i) * kPanel * bytes, weight.data(),
                     kPanel);
          for (size_t j = 0; j < kPanel; ++j) sum[j] += in[i] * weight[j];
        }
        float* result = op.out.row<float>(r) + first;
        for (int64_t j = 0; j < columns; ++j) {
          float value = sum[static_cast<size_t>(j)];
          if (op.w.bias.size() > 0) value += op.w.bias.as<float>()[first + j];
          if (op.residual.data != nullptr) value += op.residual.row<float>(r)[first + j];
          result[j] = value;
        }
      }
    }
  });
}

}  // namespace

bool can_gate(const PackedLinear& w) {
  constexpr int64_t kColumns = 32;  // columns of a panel in every table
  return w.n % (2 * kColumns) == 0 && w.outliers.size() == 0 && w.format.outlier_threshold == 0.0F;
}

PackedLinear without_gate(const PackedLinear& w) {
  const auto borrow = [](const Buffer& buffer) {
    return Buffer::borrowed({buffer.data(), buffer.size()}, nullptr);
  };
  return {.format = w.format,
          .n = w.n,
          .k = w.k,
          .data = borrow(w.data),
          .bias = borrow(w.bias),
          .column_order = borrow(w.column_order),
          .outliers = borrow(w.outliers),
          .outlier_rows = borrow(w.outlier_rows),
          .label = w.label};
}

namespace ops {

void check(const Linear& op) {
  const PackedLinear& w = op.w;
  const ShapeCheck shapes(op.kName, {{"out", &op.out}, {"x", &op.x}, {"residual", &op.residual}});
  shapes.require_f32({&op.out, &op.x});
  const auto rule = [&](bool ok, std::string_view text) {
    shapes.require(ok, text, "w [", w.n, ", ", w.k, "], bias of ", w.bias.size(), " bytes");
  };
  rule(op.x.row_size() == w.k, "x must have w's k columns");
  rule(op.out.row_size() == w.out_columns() && op.out.rows() == op.x.rows(),
       w.gate ? "out must be [rows of x, half of n of w]" : "out must be [rows of x, n of w]");
  rule(!w.gate || (can_gate(w) && op.residual.data == nullptr),
       "a gated w must have full panels of gates, no outliers and no residual");
  rule(w.bias.size() == 0 || w.bias.size() == static_cast<size_t>(w.n) * sizeof(float),
       "the bias must have n elements");
  rule(op.residual.data == nullptr ||
           (op.residual.rows() == op.out.rows() && op.residual.row_size() == op.out.row_size()),
       "the residual must have out's shape");
}

OpCost cost(const Linear& op) {
  const auto m = static_cast<double>(op.x.rows());
  const auto n = static_cast<double>(op.w.n);
  const auto k = static_cast<double>(op.w.k);
  const double outs = static_cast<double>(op.out.shape.numel()) * (op.residual.data != nullptr ? 2 : 1);
  return {
      .label = op.w.label,
      .bytes = static_cast<double>(op.w.data.size()) + (m * k + outs) * static_cast<double>(sizeof(float)),
      .flop = 2 * m * n * k,
      .rows = op.x.rows(),
      .columns = op.w.n,
      .depth = op.w.k,
      .weights = &op.w.format};
}

void run_reference(const OpContext& ctx, const Linear& op) {
  if (!op.w.gate) return multiply(ctx, op);
  std::vector<float> memory(static_cast<size_t>(op.x.rows() * op.w.n));
  const TensorView sums = make_view(memory.data(), DType::kF32, {op.x.rows(), op.w.n});
  multiply(ctx, {.out = sums, .x = op.x, .w = op.w});
  run_reference(ctx, GatedActivation{.out = op.out, .gate_up = sums, .activation = *op.w.gate});
}

void check(const Embedding& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out}});
  shapes.require_f32({&op.out});
  const auto rule = [&](bool ok, std::string_view text) {
    shapes.require(ok, text, "table ", op.table.shape.to_string(), " ", dtype_name(op.table.dtype), ", ids [",
                   op.ids.size(), "]");
  };
  rule(op.table.data != nullptr && is_storage_dtype(op.table.dtype),
       "the table must be float32, bfloat16 or float16");
  rule(op.table.shape.rank() == 2 && op.out.row_size() == op.table.shape[1] &&
           op.out.rows() == static_cast<int64_t>(op.ids.size()),
       "out must be [ids, columns of the table]");
  shapes.require_indices("ids", op.ids, op.table.rows());
}

OpCost cost(const Embedding& op) {
  OpCost cost = elementwise_cost("embedding", op.out, 1, 0);
  cost.bytes += static_cast<double>(op.out.shape.numel()) * static_cast<double>(dtype_size(op.table.dtype));
  return cost;
}

void run_reference(const OpContext& ctx, const Embedding& op) {
  const int64_t d = op.out.row_size();
  const auto bytes = static_cast<int64_t>(dtype_size(op.table.dtype));
  parallel_ranges(
      ctx, static_cast<int64_t>(op.ids.size()), row_grain(d), [&](int64_t begin, int64_t end, int) {
        for (int64_t r = begin; r < end; ++r) {
          const auto* row =
              op.table.as<std::byte>() + op.ids[static_cast<size_t>(r)] * op.table.row_stride * bytes;
          decode_f32(op.table.dtype, row, op.out.row<float>(r), d);
        }
      });
}

void check(const PackedEmbedding& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out}});
  shapes.require_f32({&op.out});
  shapes.require(!op.table.format.sparse_24, "the table must not be 2:4 sparse");
  shapes.require(op.out.row_size() == op.table.k && op.out.rows() == static_cast<int64_t>(op.ids.size()),
                 "out must be [ids, columns of the table]", "table [", op.table.n, ", ", op.table.k,
                 "], ids [", op.ids.size(), "]");
  shapes.require_indices("ids", op.ids, op.table.n);
}

OpCost cost(const PackedEmbedding& op) {
  OpCost cost = elementwise_cost("embedding", op.out, 1, 0);
  cost.bytes += static_cast<double>(op.table.data.size()) / static_cast<double>(op.table.n) *
                static_cast<double>(op.out.rows());
  return cost;
}

void run_reference(const OpContext& ctx, const PackedEmbedding& op) {
  if (is_integer(op.table.format)) return reference::embedding_packed_int(ctx, op);
  if (is_quantized(op.table.format)) return reference::embedding_packed_quantized(ctx, op);
  parallel_ranges(ctx, static_cast<int64_t>(op.ids.size()), row_grain(op.table.k),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t r = begin; r < end; ++r) {
                      const int64_t at = panel_offset(op.ids[static_cast<size_t>(r)], op.table.k);
                      float* row = op.out.row<float>(r);
                      for (int64_t i = 0; i < op.table.k; ++i)
                        row[i] = load_f32(op.table.format.dtype, op.table.data.data(), at + i * kPanel);
                    }
                  });
}

}  // namespace ops

namespace reference {

PackedLinear pack_linear(const OpContext& ctx, std::span<const TensorView> parts, WeightFormat format) {
  if (is_integer(format)) return pack_linear_int(ctx, parts, format);
  if (format.sparse_24) throw Error("pack_linear: this table has no 2:4 sparse format");
  PackedLinear packed = make_packed(parts, format, packed_bytes);
  const int64_t k = packed.k;
  int64_t first = 0;
  for (const TensorView& part : parts) {
    parallel_ranges(ctx, part.rows(), row_grain(k), [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) {
        const auto* row =
            part.as<std::byte>() + r * part.row_stride * static_cast<int64_t>(dtype_size(part.dtype));
        const int64_t at = panel_offset(first + r, k);
        for (int64_t i = 0; i < k; ++i) {
          store_f32(format.dtype, packed.data.data(), at + i * kPanel, load_f32(part.dtype, row, i));
        }
      }
    });
    first += part.rows();
  }
  return packed;
}

}  // namespace reference
}  // namespace quire
