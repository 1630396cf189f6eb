// Attention over the KV cache, writes to the cache, and the top-k selection of keys by an indexer.
#pragma once

#include <cstdint>
#include <span>

#include "ops/kv_cache.h"
#include "ops/op.h"
#include "tensor/tensor.h"

namespace quire {

// The sequences of a step, flattened. Built once per step, read by every layer. Query row r of sequence s
// (cu_seqlens_q[s] <= r < cu_seqlens_q[s + 1]) is at position seq_lens[s] - (cu_seqlens_q[s + 1] - r) and
// attends to positions 0 to its own (AttentionParams::bidirectional: to the whole sequence).
struct AttentionBatch {
  int32_t num_seqs = 0;
  std::span<const int32_t> cu_seqlens_q;        // [num_seqs + 1]
  std::span<const int32_t> seq_lens;            // [num_seqs] tokens in the cache, including this step's
  std::span<const int32_t> block_table_indptr;  // [num_seqs + 1]
  std::span<const int32_t> block_table;         // [block_table_indptr[num_seqs]] block ids, CSR
  // Which sequences share leading blocks, so that those are read only once (ops/shared_prefix.h). A hint that
  // never changes results. Both are empty, or:
  std::span<const int32_t> shared_order = {};   // [num_seqs] sequences, ordered so that equal prefixes meet
  std::span<const int32_t> shared_blocks = {};  // [num_seqs] leading blocks that shared_order[i] has in
                                                // common with shared_order[i + 1]; the last is 0
};

// Sparse attention mask: which of its visible positions each row attends to, as bit p % 64 of word p / 64.
// Words without any visible position are not read.
struct SparseMask {
  uint64_t* words = nullptr;  // [rows, heads, stride]; null = attend to all
  int64_t stride = 0;
  int64_t heads = 1;  // 1 = one mask for all KV heads; otherwise one mask per KV head

  uint64_t* row(int64_t r, int64_t key_head = 0) const {
    return words == nullptr ? nullptr : words + (r * heads + (heads > 1 ? key_head : 0)) * stride;
  }
};
inline constexpr int64_t kMaxChoosingHead = 256;  // head_dim of topk_keys and topk_blocks

// Blocks of consecutive positions, counted from position 0, that are selected together.
struct KeyBlocks {
  int32_t size = 0;   // positions per block, a multiple of 16
  int32_t count = 0;  // selected blocks per row, at most
  int32_t local = 0;  // blocks that are always selected: the row's own and those just before it
};

struct AttentionParams {
  float scale = 1.0F;  // multiplies q · k
  int32_t window = 0;  // sliding window in tokens, including the query's own; 0 = none
  int32_t chunk = 0;   // a query attends only within its own chunk of this many positions; 0 = none. Excludes
                       // a window
  // A query also attends to later positions, up to the window's size if there is one. The batch holds all
  // rows of each sequence. Excludes chunks and ALiBi.
  bool bidirectional = false;
  float logit_softcap = 0;  // cap * tanh(score / cap); 0 = none
  // Both [num_heads] float32, or null; owned by the layer.
  const float* alibi_slopes = nullptr;  // slope[h] * (key position - query position) is added to a score
  SparseMask chosen = {};
  const float* sinks = nullptr;  // attention sinks: a score per head that joins the softmax without a value
};

inline constexpr int64_t kMaxRelativeHead = 512;  // head_dim of relative_attention
// Scores of relative_attention: scale (q · k + q · keys[b] + k · queries[b]) + bias[head, b], where b is the
// bucket of the distance from query to key. Null terms are left out. Owned by the layer.
struct RelativeParams {
  float scale = 1.0F;
  std::span<const int32_t> buckets =
      {};  // [2 reach + 1], from distance -reach; distances are clamped to reach
  int64_t num_buckets = 0;
  const float* bias = nullptr;     // [num_heads, num_buckets]
  const float* keys = nullptr;     // [num_buckets, num_heads, head_dim]
  const float* queries = nullptr;  // [num_buckets, num_heads, head_dim]
};

namespace ops {

// Stores keys and values in the cache.
struct KvWrite {
  static constexpr const char* kName = "kv_write";
  KvCacheView cache;
  TensorView k;       // [rows, num_kv_heads, head_dim]; rows may share memory
  TensorView v = {};  // [rows, num_kv_heads, value_dim]; null data if the cache has only keys
  std::span<const int64_t> slot_mapping;  // [rows]: block id * block_size + offset; -1 = skip the row
};
void check(const KvWrite& op);
OpCost cost(const KvWrite& op);
void run_reference(const OpContext& ctx, const KvWrite& op);

// Softmax attention over the cache, which already holds this step's keys. Query head h reads KV head
// h / (num_heads / num_kv_heads).
struct PagedAttention {
  static constexpr const char* kName = "paged_attention";
  TensorView out;  // [rows, num_heads, value_dim]
  TensorView q;    // [rows, num_heads, head_dim]; num_heads is a multiple of cache.num_kv_heads
  KvCacheView cache;
  const AttentionBatch& batch;
  const AttentionParams& params;
};
void check(const PagedAttention& op);
OpCost cost(const PagedAttention& op);
void run_reference(const OpContext& ctx, const PagedAttention& op);

// Sets each row's bits of `mask` to the top `count` of the keys that it sees; ties go to the earlier key. The
// score of a key is the sum over heads h of weights[row, h] * max(0, q[row, h] · key). A key stands for
// `tokens_per_key` tokens and is visible once the last of them is. A block of the cache holds the keys that
// end in it.
struct TopkKeys {
  static constexpr const char* kName = "topk_keys";
  SparseMask mask;     // [rows, 1, words]
  TensorView q;        // [rows, heads, head_dim]
  TensorView weights;  // [rows, heads]
  KvCacheView keys;    // one KV head, only keys; already holds this step's
  const AttentionBatch& batch;
  int32_t count = 0;
  int32_t tokens_per_key = 1;
};
void check(const TopkKeys& op);
OpCost cost(const TopkKeys& op);
void run_reference(const OpContext& ctx, const TopkKeys& op);

// Sets the bits of the top blocks of positions, for each head separately, up to a row's own position. The
// score of a block is the highest q[row, head] · key of its positions.
struct TopkBlocks {
  static constexpr const char* kName = "topk_blocks";
  SparseMask mask;   // [rows, heads, words]
  TensorView q;      // [rows, heads, head_dim]
  KvCacheView keys;  // one KV head, only keys; already holds this step's
  const AttentionBatch& batch;
  KeyBlocks blocks;
};
void check(const TopkBlocks& op);
OpCost cost(const TopkBlocks& op);
void run_reference(const OpContext& ctx, const TopkBlocks& op);

// Bidirectional softmax attention of whole sequences to themselves, with scores that depend on the distance
// between tokens. Does not read the cache; the batch holds all rows of each sequence.
struct RelativeAttention {
  static constexpr const char* kName = "relative_attention";
  TensorView out;  // [rows, num_heads, head_dim]; may be q
  TensorView q;    // [rows, num_heads, head_dim]
  TensorView k;    // [rows, num_heads, head_dim]
  TensorView v;    // [rows, num_heads, head_dim]
  const AttentionBatch& batch;
  const RelativeParams& params;
};
void check(const RelativeAttention& op);
OpCost cost(const RelativeAttention& op);
void run_reference(const OpContext& ctx, const RelativeAttention& op);

using AttentionOps = OpList<KvWrite, PagedAttention, TopkKeys, TopkBlocks, RelativeAttention>;

}  // namespace ops
}  // namespace quire
