// Packing of float weights, matrix products and embedding lookups, on the thread pool.
#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/drivers.h"
#include "backends/cpu/small_product.h"
#include "backends/cpu/split.h"
#include "base/error.h"
#include "base/strings.h"
#include "ops/packing.h"
#include "ops/parallel.h"
#include "ops/reference.h"
#include "quant/sparse_24.h"

namespace quire::cpu {
namespace {

int64_t num_panels(int64_t n) {
  return (n + kPanel - 1) / kPanel;
}

// Bytes for prepared activations: at least a few hundred rows of any common width.
constexpr int64_t kPreparedBytes = int64_t{8} << 20;

// Bytes from one prepared row to the next: an odd number of cache lines, so that the rows of a block map to
// different cache sets.
int64_t prepared_stride(int64_t k) {
  return ((k * 2 + 63) / 64 | 1) * 64;
}

const std::byte* row_bytes(const TensorView& t, int64_t row) {
  return t.as<std::byte>() + row * t.row_stride * static_cast<int64_t>(dtype_size(t.dtype));
}

// Copies `count` elements of 2 or 4 bytes, kPanel apart in src, to contiguous memory.
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

bool keeps_sparse_24(const CpuKernels& kernels, DType dtype, int64_t k) {
  return kernels.linear_sparse_24[storage_of(dtype)] != nullptr && k % Sparse24::kBlock == 0;
}

int64_t packed_bytes(const WeightFormat& format, int64_t n, int64_t k) {
  return quire::packed_bytes(format, n, k, padded_k(storage_of(format.dtype), k));
}

namespace {

// Packs panel `p` of the parts, including zeros.
void pack_panel(const CpuKernels& kernels, std::span<const TensorView> parts, int64_t p,
                const PackedLinear& packed, std::byte* dst) {
  std::array<const void*, kPanel> rows;
  std::array<Storage, kPanel> storage;
  size_t part = 0;
  int64_t first = 0;  // first row of the part in the whole matrix
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
  const bool sparse = format.sparse_24;
  if (sparse && !keeps_sparse_24(kernels, format.dtype, packed.k)) {
    throw Error(cat("pack_linear: 2:4 sparsity is not available for ", dtype_name(format.dtype), " with ",
                    packed.k, " columns at this instruction set level"));
  }
  const auto size = static_cast<int64_t>(dtype_size(format.dtype));
  const Storage storage = storage_of(format.dtype);
  // If activations are rounded to bfloat16, products are added in pairs, odd columns first.
  const KeptOrder order = kernels.prepare_x[storage] ? KeptOrder::kOddFirst : KeptOrder::kAscending;
  const int64_t panel_bytes = kPanel * padded_k(storage, packed.k) * size;
  std::vector<Buffer> with_zeros(sparse ? static_cast<size_t>(num_threads(ctx)) : 0);
  for (Buffer& panel : with_zeros) panel = Buffer(static_cast<size_t>(panel_bytes));
  const auto pack = [&](int64_t p, int thread) {
    if (!sparse) return pack_panel(kernels, parts, p, packed, packed.data.data() + p * panel_bytes);
    std::byte* panel = with_zeros[static_cast<size_t>(thread)].data();
    pack_panel(kernels, parts, p, packed, panel);
    pack_sparse_24(panel, format.dtype, packed.k, order,
                   packed.data.data() + p * Sparse24::panel_bytes(size, packed.k));
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

LinearArgs make_args(const CpuKernels& kernels, const ops::Linear& op) {
  return {
      .x = op.x.data,
      .x_stride = op.x.row_stride,
      .out = op.out.as<float>(),
      .out_stride = op.out.row_stride,
      .residual = op.residual.as<float>(),
      .residual_stride = op.residual.row_stride,
      .bias = op.w.bias.size() > 0 ? op.w.bias.as<float>() : nullptr,
      .weights = op.w.data.data(),
      .n = op.w.n,
      .k = op.w.k,
      .gate = gate_of(kernels, op.w),
  };
}

auto kernel_of(const CpuKernels& kernels, const WeightFormat& format) {
  return (format.sparse_24 ? kernels.linear_sparse_24 : kernels.linear)[storage_of(format.dtype)];
}

ProductSize size_of(const LinearArgs& args, const WeightFormat& format, int64_t m) {
  return {m, args.n, args.k, cpu::packed_bytes(format, kPanel, args.k), args.gate.apply != nullptr};
}

// All rows and columns of one product, on the thread pool.
void multiply(const CpuKernels& kernels, const OpContext& ctx, const LinearArgs& args,
              const WeightFormat& format, int64_t m) {
  const auto kernel = kernel_of(kernels, format);
  split_product(ctx, size_of(args, format, m),
                [&](int64_t row, int64_t row_end, int64_t panel, int64_t panel_end) {
                  kernel(args, row, row_end, panel, panel_end);
                });
}

}  // namespace

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::Linear& op) {
  if (is_integer(op.w.format)) return linear_int(kernels, ctx, op);
  if (is_quantized(op.w.format)) return linear_quantized(kernels, ctx, op);
  LinearArgs args = make_args(kernels, op);
  const int64_t m = op.x.rows();
  if (m == 0) return;
  const auto prepare = kernels.prepare_x[storage_of(op.w.format.dtype)];
  if (prepare == nullptr) return multiply(kernels, ctx, args, op.w.format, m);
  void* scratch = ctx.workspace.data();
  size_t room = ctx.workspace.size();
  const int64_t stride = prepared_stride(op.w.k);
  if (std::align(64, static_cast<size_t>(stride), scratch, room) == nullptr) {
    throw Error("linear: a workspace of " + std::to_string(stride + 64) + " bytes is needed; got " +
                std::to_string(ctx.workspace.size()));
  }
  auto* prepared = static_cast<std::byte*>(scratch);
  args.x = prepared;
  args.x_stride = stride / static_cast<int64_t>(sizeof(uint32_t));
  const int64_t max_rows = static_cast<int64_t>(room) / stride;
  for (int64_t row = 0; row < m;) {
    const int64_t rows = std::min(m - row, max_rows);
    const auto prepare_rows = [&](int64_t begin, int64_t end, int) {
      for (int64_t r = begin; r < end; ++r) prepare(prepared + r * stride, op.x.row<float>(row + r), op.w.k);
    };
    if (rows * op.w.k <= kPreparedAlone) {
      prepare_rows(0, rows, 0);
    } else {
      parallel_ranges(ctx, rows, row_grain(op.w.k), prepare_rows);
    }
    multiply(kernels, ctx, args, op.w.format, rows);
    row += rows;
    args.out += rows * args.out_stride;
    if (args.residual != nullptr) args.residual += rows * args.residual_stride;
  }
}

namespace {

LinearArgs small_args(const CpuKernels& kernels, const SmallProduct& product, std::byte* memory) {
  const PackedLinear& w = product.w;
  LinearArgs args = make_args(kernels, product.of_rows(gathered(product, memory)));
  if (kernels.prepare_x[storage_of(w.format.dtype)] != nullptr) {
    args.x = memory;
    args.x_stride = prepared_stride(w.k) / static_cast<int64_t>(sizeof(uint32_t));
  }
  return args;
}

int64_t small_prepared_bytes(const CpuKernels& kernels, const SmallProduct& product) {
  const bool prepares = kernels.prepare_x[storage_of(product.w.format.dtype)] != nullptr;
  return prepares ? product.m() * prepared_stride(product.w.k) : gathered_bytes(product);
}

void small_prepare(const CpuKernels& kernels, const SmallProduct& product, std::byte* memory) {
  const auto prepare = kernels.prepare_x[storage_of(product.w.format.dtype)];
  if (prepare == nullptr) {
    gather(product, memory);
    return;
  }
  const int64_t stride = prepared_stride(product.w.k);
  for (int64_t r = 0; r < product.m(); ++r)
    prepare(memory + r * stride, product.x.row<float>(product.row(r)), product.w.k);
}

void small_multiply(const CpuKernels& kernels, const SmallProduct& product, std::byte* memory, int64_t begin,
                    int64_t end) {
  const WeightFormat& format = product.w.format;
  const LinearArgs args = small_args(kernels, product, memory);
  const auto kernel = kernel_of(kernels, format);
  const ProductSize size = size_of(args, format, product.m());
  each_few(size, begin, end, [&](int64_t from, int64_t to) { kernel(args, 0, size.m, from, to); });
}

}  // namespace

const SmallForm kSmallFloat = {small_prepared_bytes, small_prepare, small_multiply};

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::Embedding& op) {
  const int64_t d = op.out.row_size();
  const Storage storage = storage_of(op.table.dtype);
  parallel_ranges(ctx, static_cast<int64_t>(op.ids.size()), row_grain(d),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t r = begin; r < end; ++r) {
                      kernels.decode(op.out.row<float>(r),
                                     row_bytes(op.table, op.ids[static_cast<size_t>(r)]), storage, d);
                    }
                  });
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::PackedEmbedding& op) {
  if (is_integer(op.table.format)) return reference::embedding_packed_int(ctx, op);
  if (is_quantized(op.table.format)) return reference::embedding_packed_quantized(ctx, op);
  const Storage storage = storage_of(op.table.format.dtype);
  // Contiguous in a column of a panel: an element, or a pair along K.
  const int64_t depth = padded_k(storage, 1);
  const auto piece = static_cast<size_t>(depth) * dtype_size(op.table.format.dtype);
  const int64_t k = padded_k(storage, op.table.k);
  constexpr int64_t kBatch = 256;
  parallel_ranges(ctx, static_cast<int64_t>(op.ids.size()), row_grain(4 * op.table.k),
                  [&](int64_t begin, int64_t end, int) {
                    std::array<std::byte, kBatch * sizeof(float)> column;
                    for (int64_t r = begin; r < end; ++r) {
                      const int64_t id = op.ids[static_cast<size_t>(r)];
                      const int64_t first = id / kPanel * kPanel * (k / depth) + id % kPanel;
                      const auto* from = op.table.data.data() + static_cast<size_t>(first) * piece;
                      for (int64_t i = 0; i < op.table.k; i += kBatch) {
                        const int64_t n = std::min(kBatch, op.table.k - i);
                        copy_column(column.data(), from + static_cast<size_t>(i / depth * kPanel) * piece,
                                    (n + depth - 1) / depth, piece);
                        kernels.decode(op.out.row<float>(r) + i, column.data(), storage, n);
                      }
                    }
                  });
}

}  // namespace quire::cpu
