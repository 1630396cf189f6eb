// Which keys a row attends to, over the pool: scores of some rows piece by piece into the workspace, then the
// best of each row.
#include <algorithm>
#include <string>

#include "backends/cpu/drivers.h"
#include "base/error.h"
#include "ops/mark_best.h"
#include "ops/parallel.h"

namespace quire::cpu {
namespace {

constexpr int64_t kScratchBlock = 8;  // rows of kTile scores that a kernel makes at once, at the most

}  // namespace

void choose_keys(const CpuKernels& kernels, const OpContext& ctx, const KeyMask& chosen, const TensorView& q,
                 const TensorView& weights, const KvCacheView& keys, const AttentionBatch& batch,
                 int32_t count) {
  const int64_t longest = *std::max_element(batch.seq_lens.begin(), batch.seq_lens.end());
  const int64_t stride = (longest + 15) / 16 * 16;
  const auto row_bytes = static_cast<size_t>(stride) * sizeof(float);
  const auto rows_at_once = static_cast<int64_t>(ctx.workspace.size() / row_bytes);
  if (rows_at_once == 0) {
    throw Error("choose_keys: a workspace of " + std::to_string(row_bytes) + " bytes is needed; got " +
                std::to_string(ctx.workspace.size()));
  }
  auto* scores = reinterpret_cast<float*>(ctx.workspace.data());
  const auto sequence_of = [&](int64_t row) {
    const auto after = std::upper_bound(batch.cu_seqlens_q.begin(), batch.cu_seqlens_q.end(), row);
    return static_cast<size_t>(after - batch.cu_seqlens_q.begin() - 1);
  };
  // Positions that a row sees.
  const auto seen = [&](int64_t row, size_t seq) {
    return int64_t{batch.seq_lens[seq]} - (batch.cu_seqlens_q[seq + 1] - row) + 1;
  };
  const auto score = kernels.score_keys[kv_format_of(keys.dtype)];
  const auto score_piece = [&](int64_t row, int64_t segment, float* out) {
    const size_t seq = sequence_of(row);
    const int64_t end = seen(row, seq);
    const int64_t begin = segment * kSegment;
    if (end <= count || begin >= end) return;
    float products[kScratchBlock * kTile];
    float key_tile[kMaxChoosingHead * kTile];
    AttentionArgs args{};
    args.keys = keys.base + keys.layer_offset;
    args.block_stride = keys.block_stride;
    args.key_scales = args.value_scales = kv_element_bytes(keys.dtype, keys.block_size, 1, keys.head_dim);
    args.blocks = batch.block_table.data() + batch.block_table_indptr[seq];
    args.block_size = keys.block_size;
    args.num_kv_heads = 1;
    args.head_dim = keys.head_dim;
    args.scores = products;
    args.key_tile = key_tile;
    score(args, q.row<float>(row), weights.row<float>(row), static_cast<int>(q.shape[1]), begin,
          std::min(end, begin + kSegment), out + begin);
  };
  const int64_t segments = (longest + kSegment - 1) / kSegment;
  for (int64_t first = 0; first < q.rows(); first += rows_at_once) {
    const int64_t rows = std::min(rows_at_once, q.rows() - first);
    parallel_ranges(ctx, rows * segments, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t row = item / segments;
        score_piece(first + row, item % segments, scores + row * stride);
      }
    });
    parallel_ranges(ctx, rows, 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t n = seen(first + row, sequence_of(first + row));
        mark_best(scores + row * stride, n, count, chosen.row(first + row));
      }
    });
  }
}

}  // namespace quire::cpu
