#include "nn/indexer.h"

#include <algorithm>

namespace quire {

IndexerScratch place_indexer(const IndexerSizes& sizes, ScratchLayout& at) {
  IndexerScratch out;
  out.query = at.matrix(int64_t{sizes.heads} * sizes.dim);
  out.key = at.matrix(sizes.dim);
  out.weights = at.matrix(sizes.heads);
  return out;
}

KvCacheView index_cache(const KvCacheView& layer, int64_t offset, const IndexerSizes& sizes) {
  KvCacheView keys = layer;
  keys.layer_offset += offset;
  keys.num_kv_heads = 1;
  keys.head_dim = sizes.dim;
  keys.value_dim = 0;
  keys.values_in_keys = true;  // there are none
  return keys;
}

bool has_choice(const IndexerSizes& sizes, const AttentionBatch& batch) {
  return sizes.heads > 0 &&
         std::ranges::any_of(batch.seq_lens, [&](int32_t length) { return length > sizes.tokens(); });
}

void choose(const OpTable& ops, const OpContext& ctx, const Indexer& indexer, const TensorView& x,
            const TensorView& queries, const ForwardBatch& batch, const KvCacheView& keys,
            const IndexerScratch& scratch) {
  const int64_t n = x.rows();
  const IndexerSizes& sizes = indexer.sizes;
  const TensorView key = row_slice(scratch.key, 0, n);
  apply(ops, ctx, indexer.key, key, x);
  apply(ops, ctx, indexer.key_norm, key, key);
  apply_to_queries(ops, ctx, *indexer.rope, head_view(key, 1), batch.positions);
  ops.kv_write(ctx, keys, head_view(key, 1), {}, batch.slot_mapping);
  if (!has_choice(sizes, batch.attention)) return;
  const TensorView query = head_view(row_slice(scratch.query, 0, n), sizes.heads);
  apply(ops, ctx, indexer.query, row_slice(scratch.query, 0, n), queries);
  if (indexer.query_norm) apply(ops, ctx, *indexer.query_norm, query, query);
  apply_to_queries(ops, ctx, *indexer.rope, query, batch.positions);
  if (sizes.block > 0) {
    ops.choose_blocks(ctx, scratch.chosen, query, keys, batch.attention,
                      {.size = sizes.block, .count = sizes.count, .local = sizes.local});
    return;
  }
  const TensorView weights = row_slice(scratch.weights, 0, n);
  apply(ops, ctx, *indexer.weights, weights, x);
  ops.choose_keys(ctx, scratch.chosen, query, weights, keys, batch.attention, sizes.count, 1);
}

}  // namespace quire
