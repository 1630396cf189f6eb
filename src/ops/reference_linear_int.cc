// Integer formats of the reference table.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "ops/packing.h"
#include "ops/parallel.h"
#include "ops/reference.h"
#include "quant/codec.h"
#include "quant/int_layout.h"

namespace quire::reference {
namespace {

constexpr int64_t kPanel = IntLayout::kPanel;

// One row of activations: codes and the scale of each unit, in the workspace.
struct IntRow {
  float* scales;  // [num_units]
  int8_t* codes;  // [k]

  IntRow(const OpContext& ctx, const IntLayout& at)
      : scales(reinterpret_cast<float*>(ctx.workspace.data())),
        codes(reinterpret_cast<int8_t*>(scales + at.num_units)) {
    const size_t needed = static_cast<size_t>(at.num_units) * sizeof(float) + static_cast<size_t>(at.k);
    if (ctx.workspace.size() < needed)
      throw Error(cat("linear: a workspace of ", needed, " bytes is needed; got ", ctx.workspace.size()));
  }
};

void quantize_row(const IntLayout& at, const float* x, const IntRow& to) {
  for (int64_t begin = 0; begin < at.k; begin += at.activation_group) {
    const int64_t n = std::min(at.activation_group, at.k - begin);
    const float scale = quantize_activations(x + begin, n, to.codes + begin);
    for (int64_t i = begin; i < begin + n; i += at.unit) to.scales[i / at.unit] = scale;
  }
}

// One output: each exact-accumulation block in order, as floats or as integers; then the blocks in order.
float product(const PackedLinear& w, const IntLayout& at, int64_t column, const float* x,
              const IntRow* codes) {
  const std::byte* data = w.data.data();
  float sum = 0;
  for (int64_t begin = 0; begin < at.k; begin += at.unit) {
    const int64_t end = std::min(at.k, begin + at.unit);
    const float scale = int_scale(at, data, column, begin);
    if (codes != nullptr) {
      int32_t whole = 0;
      for (int64_t i = begin; i < end; ++i) whole += int_code(at, data, column, i) * codes->codes[i];
      const float unit_scale = codes->scales[begin / at.unit];
      sum = std::fma(static_cast<float>(whole), at.row_scale ? unit_scale : unit_scale * scale, sum);
    } else {
      float part = 0;
      for (int64_t i = begin; i < end; ++i)
        part = std::fma(x[i], static_cast<float>(int_code(at, data, column, i)), part);
      sum = at.row_scale ? sum + part : std::fma(part, scale, sum);
    }
  }
  return at.row_scale ? sum * int_scale(at, data, column, 0) : sum;
}

}  // namespace

PackedLinear pack_linear_int(const OpContext& ctx, std::span<const TensorView> parts, WeightFormat format) {
  PackedLinear packed = make_packed(parts, format, packed_bytes);
  const IntLayout at(format, packed.k);
  std::vector<const std::byte*> rows;
  std::vector<DType> types;
  for (const TensorView& part : parts) {
    for (int64_t r = 0; r < part.rows(); ++r) {
      rows.push_back(part.as<std::byte>() +
                     r * part.row_stride * static_cast<int64_t>(dtype_size(part.dtype)));
      types.push_back(part.dtype);
    }
  }
  parallel_ranges(ctx, at.num_panels(packed.n), 1, [&](int64_t begin, int64_t end, int) {
    std::vector<float> panel(static_cast<size_t>(packed.k * kPanel));
    for (int64_t p = begin; p < end; ++p) {
      std::fill(panel.begin(), panel.end(), 0.0F);
      for (int64_t j = 0; j < std::min(kPanel, packed.n - p * kPanel); ++j) {
        const auto row = static_cast<size_t>(p * kPanel + j);
        for (int64_t i = 0; i < packed.k; ++i)
          panel[static_cast<size_t>(i * kPanel + j)] = load_f32(types[row], rows[row], i);
      }
      quantize_panel(at, panel.data(), packed.data.data() + p * at.panel_bytes);
    }
  });
  return packed;
}

void linear_int(const OpContext& ctx, const ops::Linear& op) {
  const IntLayout at(op.w.format, op.w.k);
  std::optional<IntRow> codes;
  if (op.w.format.activations == ActivationFormat::kInt8) codes.emplace(ctx, at);
  for (int64_t r = 0; r < op.x.rows(); ++r) {
    const float* in = op.x.row<float>(r);
    if (codes) quantize_row(at, in, *codes);
    parallel_ranges(ctx, op.w.n, row_grain(4 * op.w.k), [&](int64_t begin, int64_t end, int) {
      for (int64_t column = begin; column < end; ++column) {
        float value = product(op.w, at, column, in, codes ? &*codes : nullptr);
        if (op.w.bias.size() > 0) value += op.w.bias.as<float>()[column];
        if (op.residual.data != nullptr) value += op.residual.row<float>(r)[column];
        op.out.row<float>(r)[column] = value;
      }
    });
  }
}

void embedding_packed_int(const OpContext& ctx, const ops::PackedEmbedding& op) {
  const IntLayout at(op.table.format, op.table.k);
  parallel_ranges(ctx, static_cast<int64_t>(op.ids.size()), row_grain(4 * op.table.k),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t r = begin; r < end; ++r)
                      decode_int_row(at, op.table.data.data(), op.ids[static_cast<size_t>(r)],
                                     op.out.row<float>(r));
                  });
}

}  // namespace quire::reference
