// Integer weights: packing and products, on the thread pool.
#include <algorithm>
#include <array>
#include <vector>

#include "backends/cpu/drivers.h"
#include "backends/cpu/int_blocks.h"
#include "backends/cpu/small_product.h"
#include "ops/packing.h"
#include "ops/parallel.h"
#include "quant/int_layout.h"

namespace quire::cpu {
namespace {

static_assert(kPanel == IntLayout::kPanel);
static_assert(kMaxSecondLevelScales == IntLayout::kMaxSecondLevelScales);

IntKind kind_of(const IntLayout& at) {
  if (at.second_level_group > 0) return kInt4TwoLevel;
  if (at.step == 8) return at.zero_points ? kInt4ZeroPoints : kInt4;
  return at.row_scale ? kInt8Rows : kInt8Groups;
}

int32_t zero_point_of(const CpuKernels& kernels, IntKind kind) {
  if (kind == kInt4ZeroPoints) return 1;  // multiplied by the zero point of the group
  return kind == kInt4 || kind == kInt4TwoLevel ? 8 : kernels.int8_zero;
}

// Elements along K that a kernel sums exactly.
int64_t unit_of(const IntLayout& at) {
  return at.second_level_group > 0 ? std::min(at.second_level_group, at.unit) : at.unit;
}
int64_t units_of(const IntLayout& at) {
  return (at.k + unit_of(at) - 1) / unit_of(at);
}

// Minimum number of rows for which 4-bit weights with second-level scales are converted to 8 bits first. For
// fewer rows the conversion takes longer than it saves.
int64_t fold_rows(const CpuKernels& kernels) {
  return kernels.linear_int_tiles[kInt8Groups] != nullptr ? 16 : 48;
}

// How the activations of `rows` rows are stored and divided.
struct Form {
  bool tiles;          // for linear_int_tiles
  int64_t depth;       // IntActivations::depth
  int64_t block_rows;  // maximum number of rows of a block
};
Form form_of(const CpuKernels& kernels, const IntLayout& at, IntKind kind, int64_t rows) {
  const bool tiles =
      kernels.linear_int_tiles[kind] != nullptr && kernels.int_tile_rows > 0 && rows >= kernels.int_tile_rows;
  if (tiles) return {true, flat_depth(at.k), kIntTileBlock};
  return {false, at.depth, kernels.int_block_rows};
}

// The format after that conversion.
WeightFormat folded_format(WeightFormat format) {
  format.code_bits = 8;
  format.second_level_group = 0;
  return format;
}

// Bytes of such a panel, per thread. It is written eight elements along K at a time, which may be four too
// many.
int64_t thread_panel_bytes(const IntLayout& wide) {
  return (wide.panel_bytes + 4 * kPanel + 63) / 64 * 64;
}

// The rows of a panel in the parts of a matrix; null past the end.
struct PanelRows {
  std::array<const void*, kPanel> rows = {};
  std::array<Storage, kPanel> storage = {};

  PanelRows(std::span<const TensorView> parts, int64_t first) {
    int64_t begin = 0;  // first row of the part in the whole matrix
    for (const TensorView& part : parts) {
      const int64_t end = begin + part.rows();
      for (int64_t row = std::max(first, begin); row < std::min(first + kPanel, end); ++row) {
        const auto at = static_cast<size_t>(row - first);
        rows[at] = part.as<std::byte>() +
                   (row - begin) * part.row_stride * static_cast<int64_t>(dtype_size(part.dtype));
        storage[at] = storage_of(part.dtype);
      }
      begin = end;
    }
  }
};

}  // namespace

PackedLinear pack_linear_int(const CpuKernels& kernels, const OpContext& ctx,
                             std::span<const TensorView> parts, WeightFormat format) {
  PackedLinear packed = make_packed(parts, format, packed_bytes);
  const IntLayout at(format, packed.k);
  const IntCandidates candidates = int_candidates(format.code_bits, format.zero_points);
  std::vector<Buffer> scratch;
  scratch.reserve(static_cast<size_t>(num_threads(ctx)));
  for (int t = 0; t < num_threads(ctx); ++t)
    scratch.emplace_back(static_cast<size_t>(packed.k * kPanel) * sizeof(float));
  parallel_ranges(ctx, at.num_panels(packed.n), 1, [&](int64_t begin, int64_t end, int thread) {
    float* weights = scratch[static_cast<size_t>(thread)].as<float>();
    for (int64_t p = begin; p < end; ++p) {
      PanelRows panel(parts, p * kPanel);
      kernels.pack_panel(weights, kStorageF32, panel.rows.data(), panel.storage.data(), packed.k);
      kernels.pack_int({.weights = weights,
                        .dst = packed.data.data() + p * at.panel_bytes,
                        .k = at.k,
                        .group = at.group,
                        .step = at.step,
                        .header_bytes = at.header_bytes,
                        .group_bytes = at.group_bytes,
                        .row_scale = at.row_scale,
                        .zero_points = at.zero_points,
                        .second_level_group = at.second_level_group,
                        .second_level_at = IntLayout::kSecondLevelAt,
                        .max_second_level_scale = static_cast<float>(IntLayout::kMaxSecondLevelScale),
                        .candidates = candidates.steps,
                        .num_candidates = candidates.count,
                        .low = candidates.low,
                        .high = candidates.high});
    }
  });
  return packed;
}

namespace {

// Prefetch distance, in bytes, if a single run reads the weights.
constexpr int64_t kIntPrefetchBytes = 12288;

IntLinearArgs make_args(const CpuKernels& kernels, const KernelTuning& tuning, const IntLayout& at,
                        const ops::Linear& op, int64_t first) {
  return {
      .in = {.x = op.x.row<float>(first),
             .x_stride = op.x.row_stride,
             .k = at.k,
             .depth = at.depth,
             .group = at.activation_group,
             .unit = unit_of(at),
             .num_units = units_of(at),
             .slices = 1,
             .zero_point = zero_point_of(kernels, kind_of(at))},
      .weights = op.w.data.data(),
      .panel_bytes = at.panel_bytes,
      .group_bytes = at.group_bytes,
      .header_bytes = at.header_bytes,
      .group = at.group,
      .second_level_at = IntLayout::kSecondLevelAt,
      .next = nullptr,
      .prefetch = {kIntPrefetchBytes, tuning.prefetch_into_l2},
      .n = op.w.n,
      .out = op.out.row<float>(first),
      .out_stride = op.out.row_stride,
      .residual = op.residual.data != nullptr ? op.residual.row<float>(first) : nullptr,
      .residual_stride = op.residual.row_stride,
      .bias = op.w.bias.size() > 0 ? op.w.bias.as<float>() : nullptr,
      .gate = gate_of(kernels, op.w),
  };
}

// Products of many rows with 4-bit weights that have second-level integer scales. Each panel is converted to
// 8 bits in memory of the thread and then multiplied; the exact sums stay the same. activations: memory for
// `rows` rows.
void multiply_folded(const CpuKernels& kernels, const OpContext& ctx, const IntLayout& at,
                     const IntLayout& wide, const Form& form, const IntLinearArgs& args, int64_t rows,
                     std::byte* thread_panels, std::byte* activations) {
  IntLinearArgs shared = args;
  shared.in.unit = wide.unit;
  shared.in.num_units = wide.num_units;
  shared.in.zero_point = kernels.int8_zero;
  shared.in.depth = form.depth;
  shared.panel_bytes = wide.panel_bytes;
  shared.group_bytes = wide.group_bytes;
  shared.header_bytes = wide.header_bytes;
  const Blocks blocks(rows, form.block_rows);
  quantize_activations(kernels, ctx, blocks, activations, shared.in, form.tiles);
  const ProductSize size = {
      .m = rows, .n = args.n, .k = at.k, .panel_bytes = at.panel_bytes, .gated = args.gate.apply != nullptr};
  each_chunk(ctx, blocks, size, sizeof(int8_t),
             [&](const IntBlocks& of, int64_t panel, int64_t panel_end, int thread) {
               std::byte* thread_panel = thread_panels + thread * thread_panel_bytes(wide);
               IntLinearArgs own = shared;
               for (; panel < panel_end; ++panel) {
                 const std::byte* from = args.weights + panel * at.panel_bytes;
                 kernels.fold_group_scales({.from = from,
                                            .k = at.k,
                                            .group = at.group,
                                            .second_level_group = at.second_level_group,
                                            .second_level_at = IntLayout::kSecondLevelAt,
                                            .header_bytes = at.header_bytes,
                                            .group_bytes = at.group_bytes,
                                            .to = thread_panel,
                                            .to_header_bytes = wide.header_bytes,
                                            .to_group_bytes = wide.group_bytes});
                 own.weights = thread_panel - panel * wide.panel_bytes;
                 own.next = from + at.panel_bytes;
                 if (form.tiles) {
                   kernels.linear_int_tiles[kInt8Groups](own, of, panel, panel + 1);
                 } else {
                   each_block_of(blocks, of, panel, panel + 1, [&](const IntBlock& block, int64_t) {
                     kernels.linear_int[kInt8Groups](own, block, panel);
                   });
                 }
               }
             });
}

}  // namespace

size_t int_workspace_bytes(const CpuKernels& kernels, int threads) {
  constexpr int64_t kRows = int64_t{8} << 20;
  // Enough for rows of up to 16,000 elements; longer rows are multiplied directly.
  constexpr int64_t kPlace = int64_t{512} << 10;
  return static_cast<size_t>(kRows + (kernels.fold_group_scales != nullptr ? threads * kPlace : 0));
}

void linear_int(const CpuKernels& kernels, const OpContext& ctx, const ops::Linear& op) {
  const IntLayout at(op.w.format, op.w.k);
  const IntKind kind = kind_of(at);
  const bool float_activations = op.w.format.activations == ActivationFormat::kFloat;
  const int64_t m = op.x.rows();
  if (kind == kInt4TwoLevel && kernels.fold_group_scales != nullptr && m >= fold_rows(kernels)) {
    const IntLayout wide(folded_format(op.w.format), op.w.k);
    const Form form = form_of(kernels, wide, kInt8Groups, m);
    const int64_t row_bytes = int_row_bytes(form.depth, units_of(at), 1);
    const int64_t thread_panels = num_threads(ctx) * thread_panel_bytes(wide);
    // Without room for rows after the panels, the 4-bit weights are multiplied directly.
    if (static_cast<int64_t>(ctx.workspace.size()) > thread_panels + fold_rows(kernels) * row_bytes + 64) {
      const RowRoom room = row_room(ctx.workspace.subspan(static_cast<size_t>(thread_panels)), row_bytes, m);
      std::byte* begin = room.begin - thread_panels;
      for (int64_t first = 0; first < m; first += room.max_rows) {
        const IntLinearArgs args = make_args(kernels, ctx.tuning, at, op, first);
        multiply_folded(kernels, ctx, at, wide, form, args, std::min(room.max_rows, m - first), begin,
                        room.begin);
      }
      return;
    }
  }
  const Form form = form_of(kernels, at, kind, float_activations ? 0 : m);
  const RowRoom scratch = float_activations
                              ? RowRoom{.max_rows = m}
                              : row_room(ctx.workspace, int_row_bytes(form.depth, units_of(at), 1), m);
  for (int64_t first = 0; first < m; first += scratch.max_rows) {
    const int64_t rows = std::min(scratch.max_rows, m - first);
    const Blocks blocks(rows, form.block_rows);
    IntLinearArgs args = make_args(kernels, ctx.tuning, at, op, first);
    args.in.depth = form.depth;
    if (!float_activations) quantize_activations(kernels, ctx, blocks, scratch.begin, args.in, form.tiles);
    const auto kernel = float_activations ? kernels.linear_int_float[kind] : kernels.linear_int[kind];
    const auto bytes = static_cast<int64_t>(float_activations ? sizeof(float) : sizeof(int8_t));
    const ProductSize size = {
        .m = rows, .n = op.w.n, .k = at.k, .panel_bytes = at.panel_bytes, .gated = op.w.gate.has_value()};
    if (form.tiles) {
      each_chunk(ctx, blocks, size, bytes, [&](const IntBlocks& some, int64_t from, int64_t to, int) {
        kernels.linear_int_tiles[kind](args, some, from, to);
      });
      continue;
    }
    each_block(ctx, blocks, size, bytes,
               [&](const IntBlock& block, int64_t panel) { kernel(args, block, panel); });
  }
}

namespace {

int64_t int_prepared_bytes(const CpuKernels& /*kernels*/, const SmallProduct& product) {
  const IntLayout at(product.w.format, product.w.k);
  const bool floats = product.w.format.activations == ActivationFormat::kFloat;
  return gathered_bytes(product) + (floats ? 0 : product.m() * int_row_bytes(at.depth, units_of(at), 1));
}

void int_prepare(const CpuKernels& kernels, const SmallProduct& product, std::byte* memory) {
  const TensorView x = gather(product, memory);
  if (product.w.format.activations == ActivationFormat::kFloat) return;
  const IntLayout at(product.w.format, product.w.k);
  IntActivations in = make_args(kernels, product.tuning, at, product.of_rows(x), 0).in;
  const Blocks blocks(product.m(), kernels.int_block_rows);
  place_activations(product.m(), memory + gathered_bytes(product), in);
  for (int64_t b = 0; b < blocks.count; ++b) kernels.quantize_rows(in, blocks.first(b), blocks.size(b));
}

void int_multiply(const CpuKernels& kernels, const SmallProduct& product, std::byte* memory, int64_t begin,
                  int64_t end) {
  const IntLayout at(product.w.format, product.w.k);
  const bool floats = product.w.format.activations == ActivationFormat::kFloat;
  IntLinearArgs args = make_args(kernels, product.tuning, at, product.of_rows(gathered(product, memory)), 0);
  if (!floats) place_activations(product.m(), memory + gathered_bytes(product), args.in);
  const auto kernel = (floats ? kernels.linear_int_float : kernels.linear_int)[kind_of(at)];
  const Blocks blocks(product.m(), kernels.int_block_rows);
  const ProductSize size = {.m = product.m(),
                            .n = product.w.n,
                            .k = at.k,
                            .panel_bytes = at.panel_bytes,
                            .gated = product.w.gate.has_value()};
  each_panel(blocks, size, begin, end, [&](const IntBlocks& some, int64_t from, int64_t to) {
    each_block_of(blocks, some, from, to,
                  [&](const IntBlock& block, int64_t panel) { kernel(args, block, panel); });
  });
}

}  // namespace

const SmallForm kSmallInt = {int_prepared_bytes, int_prepare, int_multiply};

}  // namespace quire::cpu
