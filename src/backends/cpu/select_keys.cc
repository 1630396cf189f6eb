// Top-k selection of keys by an indexer, on the thread pool. Scores of some rows are written to the workspace
// piece by piece; then the top-k keys of each row are marked.
#include <algorithm>
#include <string>

#include "backends/cpu/drivers.h"
#include "base/error.h"
#include "ops/parallel.h"
#include "ops/topk_to_bitmask.h"

namespace quire::cpu {
namespace {

constexpr int64_t kScratchBlock = 8;  // maximum number of rows of kTile scores per kernel call

// Shared by both selections: the rows, the keys that they see, and their scores.
struct Selection {
  const char* op;
  const OpContext& ctx;
  const TensorView& q;
  const KvCacheView& keys;
  const AttentionBatch& batch;
  int32_t tokens = 1;  // tokens per key

  size_t sequence_of(int64_t row) const {
    const auto after = std::upper_bound(batch.cu_seqlens_q.begin(), batch.cu_seqlens_q.end(), row);
    return static_cast<size_t>(after - batch.cu_seqlens_q.begin() - 1);
  }
  // Number of keys that a row sees.
  int64_t seen(int64_t row) const {
    const size_t seq = sequence_of(row);
    return (int64_t{batch.seq_lens[seq]} - (batch.cu_seqlens_q[seq + 1] - row) + 1) / tokens;
  }
  int64_t longest() const { return *std::max_element(batch.seq_lens.begin(), batch.seq_lens.end()) / tokens; }

  // The keys of a row; products and gathered keys go to the caller's scratch memory.
  AttentionArgs args(int64_t row, float* products, float* key_tile) const {
    AttentionArgs args{};
    args.keys = keys.base + keys.layer_offset;
    args.block_stride = keys.block_stride;
    args.key_scales = args.value_scales = kv_element_bytes(keys.dtype, keys.block_size, 1, keys.head_dim);
    args.blocks = batch.block_table.data() + batch.block_table_indptr[sequence_of(row)];
    args.block_size = keys.block_size;
    args.num_kv_heads = 1;
    args.head_dim = keys.head_dim;
    args.scores = products;
    args.key_tile = key_tile;
    return args;
  }

  // Calls score(args, row, begin, end, scores) for pieces of `piece` positions, in rows that see more than
  // `selected` keys, and then mark(row, number of keys it sees, scores) for each row. A row has row_scores
  // scores.
  template <typename Score, typename Mark>
  void run(int64_t row_scores, int64_t piece, int64_t selected, Score score, Mark mark) const {
    const auto row_bytes = static_cast<size_t>(row_scores) * sizeof(float);
    const auto rows_at_once = static_cast<int64_t>(ctx.workspace.size() / row_bytes);
    if (rows_at_once == 0) {
      throw Error(std::string(op) + ": a workspace of " + std::to_string(row_bytes) +
                  " bytes is needed; got " + std::to_string(ctx.workspace.size()));
    }
    auto* scores = reinterpret_cast<float*>(ctx.workspace.data());
    const int64_t pieces = (longest() + piece - 1) / piece;
    for (int64_t first = 0; first < q.rows(); first += rows_at_once) {
      const int64_t rows = std::min(rows_at_once, q.rows() - first);
      parallel_ranges(ctx, rows * pieces, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t item = begin; item < end; ++item) {
          const int64_t row = first + item / pieces;
          const int64_t from = item % pieces * piece;
          const int64_t visible = seen(row);
          if (visible <= selected || from >= visible) continue;
          float products[kScratchBlock * kTile];
          float key_tile[kMaxChoosingHead * kTile];
          score(args(row, products, key_tile), row, from, std::min(visible, from + piece),
                scores + (row - first) * row_scores);
        }
      });
      parallel_ranges(ctx, rows, 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row)
          mark(first + row, seen(first + row), scores + row * row_scores);
      });
    }
  }
};

// Rounds a row of n floats up to full cache lines.
int64_t row_floats(int64_t n) {
  return (n + 15) / 16 * 16;
}

}  // namespace

size_t selection_bytes(int64_t max_seq_len, int32_t num_heads) {
  constexpr int64_t kLeastBlock = 16;
  const int64_t of_blocks = num_heads * row_floats(max_seq_len / kLeastBlock + 1);
  return static_cast<size_t>(std::max(row_floats(max_seq_len), of_blocks)) * sizeof(float);
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::TopkKeys& op) {
  const Selection selection = {op.kName, ctx, op.q, op.keys, op.batch, op.tokens_per_key};
  const auto kernel = kernels.score_keys[kv_format_of(op.keys.dtype)];
  const auto score = [&](const AttentionArgs& args, int64_t row, int64_t begin, int64_t end, float* scores) {
    kernel(args, op.q.row<float>(row), op.weights.row<float>(row), static_cast<int>(op.q.shape[1]), begin,
           end, scores + begin);
  };
  selection.run(row_floats(selection.longest()), kKvSplit, op.count, score,
                [&](int64_t row, int64_t seen, const float* scores) {
                  topk_to_bitmask(scores, seen, op.count, op.mask.row(row));
                });
}

void run(const CpuKernels& kernels, const OpContext& ctx, const ops::TopkBlocks& op) {
  const Selection selection = {op.kName, ctx, op.q, op.keys, op.batch};
  const int64_t heads = op.q.shape[1];
  const int64_t size = op.blocks.size;
  const int64_t stride = row_floats((selection.longest() + size - 1) / size);
  // A block is scored by one thread.
  const int64_t piece = (kKvSplit + size - 1) / size * size;
  const auto kernel = kernels.score_blocks[kv_format_of(op.keys.dtype)];
  const auto score = [&](const AttentionArgs& args, int64_t row, int64_t begin, int64_t end, float* scores) {
    kernel(args, op.q.row<float>(row), static_cast<int>(heads), size, begin, end, scores + begin / size,
           stride);
  };
  selection.run(heads * stride, piece, size * op.blocks.count, score,
                [&](int64_t row, int64_t seen, float* scores) {
                  for (int64_t h = 0; h < heads; ++h)
                    topk_blocks_to_bitmask(scores + h * stride, seen, op.blocks, op.mask.row(row, h));
                });
}

}  // namespace quire::cpu
