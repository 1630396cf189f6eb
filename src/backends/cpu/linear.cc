// Weights, products with them and rows out of them, over the pool.
#include <algorithm>
#include <array>

#include "backends/cpu/drivers.h"
#include "ops/checks.h"
#include "ops/parallel.h"
#include "quant/codec.h"

namespace quire::cpu {
namespace {

int64_t num_panels(int64_t n) {
  return (n + kPanel - 1) / kPanel;
}

const std::byte* row_bytes(const TensorView& t, int64_t row) {
  return t.as<std::byte>() + row * t.row_stride * static_cast<int64_t>(dtype_size(t.dtype));
}

}  // namespace

Storage storage_of(DType t) {
  return t == DType::kF32 ? kStorageF32 : t == DType::kBF16 ? kStorageBF16 : kStorageF16;
}

PackedLinear pack_linear(const CpuKernels& kernels, const OpContext& ctx, std::span<const TensorView> parts,
                         WeightFormat format) {
  PackedLinear packed = make_packed(parts, format, kPanel);
  const int64_t panel_bytes = kPanel * packed.k * static_cast<int64_t>(dtype_size(format.dtype));
  parallel_ranges(ctx, num_panels(packed.n), row_grain(kPanel * packed.k),
                  [&](int64_t begin, int64_t end, int) {
                    std::array<const void*, kPanel> rows;
                    std::array<Storage, kPanel> storage;
                    size_t part = 0;
                    int64_t first = 0;  // the part's first row in the whole
                    for (int64_t p = begin; p < end; ++p) {
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
                      kernels.pack_panel(packed.data.data() + p * panel_bytes, storage_of(format.dtype),
                                         rows.data(), storage.data(), packed.k);
                    }
                  });
  return packed;
}

void linear(const CpuKernels& kernels, const OpContext& ctx, const TensorView& out, const TensorView& x,
            const PackedLinear& w, const TensorView& residual) {
  const LinearArgs args = {
      .x = x.as<float>(),
      .x_stride = x.row_stride,
      .out = out.as<float>(),
      .out_stride = out.row_stride,
      .residual = residual.as<float>(),
      .residual_stride = residual.row_stride,
      .bias = w.bias.size() > 0 ? w.bias.as<float>() : nullptr,
      .weights = w.data.data(),
      .n = w.n,
      .k = w.k,
  };
  const int64_t m = x.rows();
  if (m == 0) return;
  const auto kernel = kernels.linear[storage_of(w.format.dtype)];
  const int64_t panels = num_panels(w.n);
  const int64_t threads = num_threads(ctx);
  // Four panels keep enough sums in flight for one row; fewer where they would leave threads without work.
  int64_t width = m == 1 ? 4 : 2;
  while (width > 1 && panels < 2 * threads * width) width /= 2;
  // Rows are cut only where the columns alone do not occupy the threads; chunks of rows of the same columns
  // follow each other, so that the second finds the weights in the cache.
  const int64_t columns = (panels + width - 1) / width;
  constexpr int64_t kRows = 192;
  int64_t rows = std::min(m, kRows);
  while (rows > 24 && columns * ((m + rows - 1) / rows) < 4 * threads) rows = (rows + 1) / 2;
  const int64_t chunks = (m + rows - 1) / rows;
  const int64_t cost = rows * width * kPanel * w.k;
  parallel_ranges(ctx, columns * chunks, std::max<int64_t>(1, 131072 / cost),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t item = begin; item < end; ++item) {
                      const int64_t panel = item / chunks * width;
                      const int64_t row = item % chunks * rows;
                      kernel(args, row, std::min(m, row + rows), panel, std::min(panels, panel + width));
                    }
                  });
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

void embedding_packed(const OpContext& ctx, const TensorView& out, const PackedLinear& table,
                      std::span<const int32_t> ids) {
  const DType dtype = table.format.dtype;
  parallel_ranges(ctx, static_cast<int64_t>(ids.size()), row_grain(4 * table.k),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t r = begin; r < end; ++r) {
                      const int64_t id = ids[static_cast<size_t>(r)];
                      const int64_t j = id % kPanel;
                      const int64_t place = dtype == DType::kBF16 ? 2 * (j % 16) + j / 16 : j;
                      const int64_t at = id / kPanel * kPanel * table.k + place;
                      float* row = out.row<float>(r);
                      for (int64_t i = 0; i < table.k; ++i)
                        row[i] = load_f32(dtype, table.data.data(), at + i * kPanel);
                    }
                  });
}

}  // namespace quire::cpu
