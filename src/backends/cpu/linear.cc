// Weights, products with them and rows out of them, over the pool.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/drivers.h"
#include "backends/cpu/split.h"
#include "base/error.h"
#include "base/strings.h"
#include "ops/checks.h"
#include "ops/parallel.h"
#include "ops/reference.h"
#include "quant/two_of_four.h"

namespace quire::cpu {
namespace {

int64_t num_panels(int64_t n) {
  return (n + kPanel - 1) / kPanel;
}

// Bytes for prepared activations, of a few hundred rows at least whatever k is usual.
constexpr int64_t kPreparedBytes = int64_t{8} << 20;
// Elements that one thread prepares sooner than the others come to its help.
constexpr int64_t kPreparedAlone = 16384;

// Bytes from one prepared row to the next: an odd number of cache lines, so that the rows of a block lie in
// different sets of the cache.
int64_t prepared_stride(int64_t k) {
  return ((k * 2 + 63) / 64 | 1) * 64;
}

const std::byte* row_bytes(const TensorView& t, int64_t row) {
  return t.as<std::byte>() + row * t.row_stride * static_cast<int64_t>(dtype_size(t.dtype));
}

// `count` pieces of 2 or 4 bytes that lie kPanel apart, one behind the other.
void copy_column(std::byte* dst, const std::byte* src, int64_t count, size_t piece) {
  const size_t stride = static_cast<size_t>(kPanel) * piece;
  if (piece == 4) {
    for (int64_t i = 0; i < count; ++i, dst += 4, src += stride) std::memcpy(dst, src, 4);
  } else {
    for (int64_t i = 0; i < count; ++i, dst += 2, src += stride) std::memcpy(dst, src, 2);
  }
}

}  // namespace

Storage storage_of(DType t) {
  return t == DType::kF32 ? kStorageF32 : t == DType::kBF16 ? kStorageBF16 : kStorageF16;
}

bool keeps_two_of_four(const CpuKernels& kernels, DType dtype, int64_t k) {
  return kernels.linear_two_of_four[storage_of(dtype)] != nullptr && k % TwoOfFour::kBlock == 0;
}

int64_t packed_bytes(const WeightFormat& format, int64_t n, int64_t k) {
  return quire::packed_bytes(format, n, k, padded_k(storage_of(format.dtype), k));
}

namespace {

// Panel `p` of the parts, with all weights.
void pack_panel(const CpuKernels& kernels, std::span<const TensorView> parts, int64_t p,
                const PackedLinear& packed, std::byte* dst) {
  std::array<const void*, kPanel> rows;
  std::array<Storage, kPanel> storage;
  size_t part = 0;
  int64_t first = 0;  // the part's first row in the whole
  for (int64_t j = 0; j < kPanel; ++j) {
    const int64_t row = p * kPanel + j;
    const auto at = static_cast<size_t>(j);
    if (row >= packed.n) {
      rows[at] = nullptr;
      storage[at] = kStorageF32;
      continue;
    }
    while (row - first >= parts[part].rows()) first += parts[part++].rows();
    rows[at] = row_bytes(parts[part], row - first);
    storage[at] = storage_of(parts[part].dtype);
  }
  kernels.pack_panel(dst, storage_of(packed.format.dtype), rows.data(), storage.data(), packed.k);
}

}  // namespace

PackedLinear pack_linear(const CpuKernels& kernels, const OpContext& ctx, std::span<const TensorView> parts,
                         WeightFormat format) {
  if (is_integer(format)) return pack_linear_int(kernels, ctx, parts, format);
  PackedLinear packed = make_packed(parts, format, packed_bytes);
  const bool sparse = format.two_of_four;
  if (sparse && !keeps_two_of_four(kernels, format.dtype, packed.k)) {
    throw Error(cat("pack_linear: two of four weights of ", dtype_name(format.dtype), " with ", packed.k,
                    " columns are not kept here"));
  }
  const auto size = static_cast<int64_t>(dtype_size(format.dtype));
  const Storage storage = storage_of(format.dtype);
  // Where activations are rounded, products of pairs are added, those of odd columns first.
  const KeptOrder order = kernels.prepare_x[storage] ? KeptOrder::kOddFirst : KeptOrder::kAscending;
  const int64_t panel_bytes = kPanel * padded_k(storage, packed.k) * size;
  std::vector<Buffer> with_zeros(sparse ? static_cast<size_t>(num_threads(ctx)) : 0);
  for (Buffer& panel : with_zeros) panel = Buffer(static_cast<size_t>(panel_bytes));
  const auto pack = [&](int64_t p, int thread) {
    if (!sparse) return pack_panel(kernels, parts, p, packed, packed.data.data() + p * panel_bytes);
    std::byte* panel = with_zeros[static_cast<size_t>(thread)].data();
    pack_panel(kernels, parts, p, packed, panel);
    pack_two_of_four(panel, format.dtype, packed.k, order,
                     packed.data.data() + p * TwoOfFour::panel_bytes(size, packed.k));
  };
  parallel_ranges(ctx, num_panels(packed.n), row_grain(kPanel * packed.k),
                  [&](int64_t begin, int64_t end, int thread) {
                    for (int64_t p = begin; p < end; ++p) pack(p, thread);
                  });
  return packed;
}

size_t linear_workspace_bytes(const CpuKernels& kernels) {
  return std::ranges::any_of(kernels.prepare_x, [](auto f) { return f != nullptr; })
             ? static_cast<size_t>(kPreparedBytes) + 64
             : 0;
}

namespace {

// All rows and columns of one product, over the pool.
void multiply(const CpuKernels& kernels, const OpContext& ctx, const LinearArgs& args,
              const WeightFormat& format, int64_t m) {
  const auto kernel =
      (format.two_of_four ? kernels.linear_two_of_four : kernels.linear)[storage_of(format.dtype)];
  split_product(ctx,
                {m, args.n, args.k, cpu::packed_bytes(format, kPanel, args.k), args.gate.apply != nullptr},
                [&](int64_t row, int64_t row_end, int64_t panel, int64_t panel_end) {
                  kernel(args, row, row_end, panel, panel_end);
                });
}

}  // namespace

void linear(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
            const PackedLinear& w, const TensorView& residual) {
  if (is_integer(w.format)) return linear_int(kernels, ctx, out, x, w, residual);
  if (is_coded(w.format)) return linear_coded(kernels, ctx, out, x, w, residual);
  LinearArgs args = {
      .x = x.data,
      .x_stride = x.row_stride,
      .out = out.as<float>(),
      .out_stride = out.row_stride,
      .residual = residual.as<float>(),
      .residual_stride = residual.row_stride,
      .bias = w.bias.size() > 0 ? w.bias.as<float>() : nullptr,
      .weights = w.data.data(),
      .n = w.n,
      .k = w.k,
      .gate = gate_of(kernels, w),
  };
  const int64_t m = x.rows();
  if (m == 0) return;
  const auto prepare = kernels.prepare_x[storage_of(w.format.dtype)];
  if (prepare == nullptr) return multiply(kernels, ctx, args, w.format, m);
  void* scratch = ctx.workspace.data();
  size_t room = ctx.workspace.size();
  const int64_t stride = prepared_stride(w.k);
  if (std::align(64, static_cast<size_t>(stride), scratch, room) == nullptr) {
    throw Error("linear: a workspace of " + std::to_string(stride + 64) + " bytes is needed; got " +
                std::to_string(ctx.workspace.size()));
  }
  auto* prepared = static_cast<std::byte*>(scratch);
  args.x = prepared;
  args.x_stride = stride / static_cast<int64_t>(sizeof(uint32_t));
  const int64_t most = static_cast<int64_t>(room) / stride;
  for (int64_t row = 0; row < m;) {
    const int64_t rows = std::min(m - row, most);
    const auto prepare_rows = [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) prepare(prepared + r * stride, x.row<float>(row + r), w.k);
    };
    if (rows * w.k <= kPreparedAlone) {
      prepare_rows(0, rows, 0);
    } else {
      parallel_ranges(ctx, rows, row_grain(w.k), prepare_rows);
    }
    multiply(kernels, ctx, args, w.format, rows);
    row += rows;
    args.out += rows * args.out_stride;
    if (args.residual != nullptr) args.residual += rows * args.residual_stride;
  }
}

void embedding(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out,
               const TensorView& table, std::span<const int32_t> ids) {
  const int64_t d = out.row_size();
  const Storage storage = storage_of(table.dtype);
  parallel_ranges(ctx, static_cast<int64_t>(ids.size()), row_grain(d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      kernels.decode(out.row<float>(r), row_bytes(table, ids[static_cast<size_t>(r)]), storage, d);
    }
  });
}

void embedding_packed(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out,
                      const PackedLinear& table, std::span<const int32_t> ids) {
  if (is_integer(table.format)) return reference::embedding_packed_int(ctx, out, table, ids);
  if (is_coded(table.format)) return reference::embedding_packed_coded(ctx, out, table, ids);
  const Storage storage = storage_of(table.format.dtype);
  // What lies side by side in a column of a panel: an element, or the pair that two k make.
  const int64_t depth = padded_k(storage, 1);
  const auto piece = static_cast<size_t>(depth) * dtype_size(table.format.dtype);
  const int64_t k = padded_k(storage, table.k);
  constexpr int64_t kBatch = 256;
  parallel_ranges(ctx, static_cast<int64_t>(ids.size()), row_grain(4 * table.k),
                  [&](int64_t begin, int64_t end, int) {
                    std::array<std::byte, kBatch * sizeof(float)> column;
                    for (int64_t r = begin; r < end; ++r) {
                      const int64_t id = ids[static_cast<size_t>(r)];
                      const int64_t first = id / kPanel * kPanel * (k / depth) + id % kPanel;
                      const auto* from = table.data.data() + static_cast<size_t>(first) * piece;
                      for (int64_t i = 0; i < table.k; i += kBatch) {
                        const int64_t n = std::min(kBatch, table.k - i);
                        copy_column(column.data(), from + static_cast<size_t>(i / depth * kPanel) * piece,
                                    (n + depth - 1) / depth, piece);
                        kernels.decode(out.row<float>(r) + i, column.data(), storage, n);
                      }
                    }
                  });
}

}  // namespace quire::cpu
