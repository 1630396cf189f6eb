// Matrices of the plain table: packing, products, look-up of rows.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/checks.h"
#include "ops/parallel.h"
#include "ops/reference.h"
#include "quant/codec.h"

namespace quire::reference {
namespace {

constexpr int64_t kPanel = 32;

int64_t panel_offset(int64_t row, int64_t k) {
  return (row / kPanel) * k * kPanel + row % kPanel;
}

void multiply(const OpContext& ctx, const TensorView& out, const TensorView& x, const PackedLinear& w,
              const TensorView& residual) {
  if (is_integer(w.format)) return linear_int(ctx, out, x, w, residual);
  if (is_coded(w.format)) return linear_coded(ctx, out, x, w, residual);
  const int64_t m = x.rows();
  const int64_t panels = (w.n + kPanel - 1) / kPanel;
  const auto bytes = static_cast<int64_t>(dtype_size(w.format.dtype));
  parallel_ranges(ctx, panels, row_grain(m * w.k * kPanel), [&](int64_t begin, int64_t end, int) {
    std::array<float, kPanel> sum;
    std::array<float, kPanel> weight;
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kPanel;
      const int64_t columns = std::min(kPanel, w.n - first);
      for (int64_t r = 0; r < m; ++r) {
        const float* in = x.row<float>(r);
        sum.fill(0.0F);
        for (int64_t i = 0; i < w.k; ++i) {
          decode_f32(w.format.dtype, w.data.data() + (p * w.k + i) * kPanel * bytes, weight.data(), kPanel);
          for (size_t j = 0; j < kPanel; ++j) sum[j] += in[i] * weight[j];
        }
        float* result = out.row<float>(r) + first;
        for (int64_t j = 0; j < columns; ++j) {
          float value = sum[static_cast<size_t>(j)];
          if (w.bias.size() > 0) value += w.bias.as<float>()[first + j];
          if (residual.data != nullptr) value += residual.row<float>(r)[first + j];
          result[j] = value;
        }
      }
    }
  });
}

}  // namespace

PackedLinear pack_linear(const OpContext& ctx, std::span<const TensorView> parts, WeightFormat format) {
  if (is_integer(format)) return pack_linear_int(ctx, parts, format);
  if (format.two_of_four) throw Error("pack_linear: this table keeps all weights");
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

void linear(const OpContext& ctx, const TensorView& out, const TensorView& x, const PackedLinear& w,
            const TensorView& residual) {
  if (!w.gate) return multiply(ctx, out, x, w, residual);
  std::vector<float> sums(static_cast<size_t>(x.rows() * w.n));
  const TensorView both = make_view(sums.data(), DType::kF32, {x.rows(), w.n});
  multiply(ctx, both, x, w, {});
  gated_activation(ctx, out, both, *w.gate);
}

void embedding(const OpContext& ctx, const TensorView& out, const TensorView& table,
               std::span<const int32_t> ids) {
  const int64_t d = out.row_size();
  const auto bytes = static_cast<int64_t>(dtype_size(table.dtype));
  parallel_ranges(ctx, static_cast<int64_t>(ids.size()), row_grain(d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      const auto* row = table.as<std::byte>() + ids[static_cast<size_t>(r)] * table.row_stride * bytes;
      decode_f32(table.dtype, row, out.row<float>(r), d);
    }
  });
}

void embedding_packed(const OpContext& ctx, const TensorView& out, const PackedLinear& table,
                      std::span<const int32_t> ids) {
  if (is_integer(table.format)) return embedding_packed_int(ctx, out, table, ids);
  if (is_coded(table.format)) return embedding_packed_coded(ctx, out, table, ids);
  parallel_ranges(ctx, static_cast<int64_t>(ids.size()), row_grain(table.k),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t r = begin; r < end; ++r) {
                      const int64_t at = panel_offset(ids[static_cast<size_t>(r)], table.k);
                      float* row = out.row<float>(r);
                      for (int64_t i = 0; i < table.k; ++i)
                        row[i] = load_f32(table.format.dtype, table.data.data(), at + i * kPanel);
                    }
                  });
}

}  // namespace quire::reference
