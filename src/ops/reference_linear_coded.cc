// Matrices of codes of the plain table.
#include <algorithm>
#include <array>
#include <cmath>

#include "ops/checks.h"
#include "ops/parallel.h"
#include "ops/reference.h"
#include "quant/coded_layout.h"

namespace quire::reference {
namespace {

// Weights that are decoded at once.
constexpr int64_t kRun = 256;

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
  parallel_ranges(ctx, w.n, row_grain(16 * w.k), [&](int64_t begin, int64_t end, int) {
    std::array<float, kRun> weights;
    for (int64_t column = begin; column < end; ++column) {
      for (int64_t r = 0; r < x.rows(); ++r) {
        const float* in = x.row<float>(r);
        float sum = 0;
        for (int64_t first = 0; first < w.k; first += kRun) {
          const int64_t last = std::min(w.k, first + kRun);
          decode_coded(at, w.data.data(), column, first, last, weights.data());
          for (int64_t i = first; i < last; ++i)
            sum = std::fma(in[order == nullptr ? i : order[i]], weights[static_cast<size_t>(i - first)], sum);
        }
        if (w.bias.size() > 0) sum += w.bias.as<float>()[column];
        if (residual.data != nullptr) sum += residual.row<float>(r)[column];
        out.row<float>(r)[column] = sum;
      }
    }
  });
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
        }
      });
}

}  // namespace quire::reference
