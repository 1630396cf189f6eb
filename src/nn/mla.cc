#include "nn/mla.h"

#include <algorithm>

#include "nn/scratch.h"

namespace quire {
namespace {

// Lays the scratch out from `memory` on; null: only counts. Returns its end.
int64_t place(const MlaSizes& sizes, int64_t num_heads, int64_t rows, float* memory, MlaScratch& out) {
  ScratchLayout at(rows, memory);
  out.query_down = at.matrix(sizes.query_rank);
  out.query = at.matrix(num_heads * sizes.query_dim());
  out.latent = at.matrix(sizes.cached());
  out.absorbed = at.matrix(num_heads * sizes.cached());
  out.heads = at.matrix(num_heads * sizes.latent);
  out.values = at.matrix(num_heads * sizes.value);
  out.gates = at.matrix(sizes.gated ? num_heads : 0);
  out.index_query = at.matrix(int64_t{sizes.index_heads} * sizes.index_dim);
  out.index_key = at.matrix(sizes.index_dim);
  out.index_weights = at.matrix(sizes.index_heads);
  return at.size();
}

// The vectors: what turns of a key, then what is its value too.
KvCacheView latent_cache(const KvCacheView& cache, const MlaSizes& sizes) {
  KvCacheView vectors = cache;
  vectors.value_dim = sizes.latent;
  vectors.values_in_keys = true;
  return vectors;
}

// Where the indexer's keys lie: behind the layer's vectors. They have no values.
KvCacheView index_cache(const KvCacheView& cache, const MlaSizes& sizes) {
  KvCacheView keys = cache;
  keys.layer_offset += kv_part_bytes(cache.dtype, cache.block_size, cache.num_kv_heads, cache.head_dim);
  keys.num_kv_heads = 1;
  keys.head_dim = sizes.index_dim;
  keys.values_in_keys = true;
  return keys;
}

// Some row sees more keys than it attends to.
bool has_choice(const MlaSizes& sizes, const AttentionBatch& batch) {
  return sizes.index_count > 0 &&
         std::ranges::any_of(batch.seq_lens, [&](int32_t length) { return length > sizes.index_count; });
}

// Stores the indexer's keys of x; where there is a choice, makes it. down: the queries' short vectors.
void choose(const OpTable& ops, const OpContext& ctx, const Indexer& indexer, const MlaSizes& sizes,
            const TensorView& x, const TensorView& down, const ForwardBatch& batch, const KvCacheView& cache,
            const MlaScratch& scratch) {
  const int64_t n = x.rows();
  const KvCacheView keys = index_cache(cache, sizes);
  const TensorView key = row_slice(scratch.index_key, 0, n);
  apply(ops, ctx, indexer.key, key, x);
  apply(ops, ctx, indexer.key_norm, key, key);
  apply_to_queries(ops, ctx, *indexer.rope, head_view(key, 1), batch.positions);
  ops.kv_write(ctx, keys, head_view(key, 1), {}, batch.slot_mapping);
  if (!has_choice(sizes, batch.attention)) return;
  const TensorView query = row_slice(scratch.index_query, 0, n);
  const TensorView weights = row_slice(scratch.index_weights, 0, n);
  apply(ops, ctx, indexer.query, query, down);
  apply_to_queries(ops, ctx, *indexer.rope, head_view(query, sizes.index_heads), batch.positions);
  apply(ops, ctx, indexer.weights, weights, x);
  ops.choose_keys(ctx, scratch.chosen, head_view(query, sizes.index_heads), weights, keys, batch.attention,
                  sizes.index_count);
}

}  // namespace

int64_t mla_scratch_size(const MlaSizes& sizes, int64_t num_heads, int64_t rows) {
  MlaScratch unused;
  return place(sizes, num_heads, rows, nullptr, unused);
}

MlaScratch make_mla_scratch(const MlaSizes& sizes, int64_t num_heads, int64_t rows, float* memory) {
  MlaScratch out;
  place(sizes, num_heads, rows, memory, out);
  return out;
}

void apply(const OpTable& ops, const OpContext& ctx, const Mla& mla, const Rope* rope, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const KvCacheView& cache, const MlaScratch& scratch) {
  const int64_t n = x.rows();
  const int64_t heads = mla.num_heads();
  const int64_t query_dim = mla.sizes.query_dim();
  const int64_t cached = mla.sizes.cached();
  const TensorView query = row_slice(scratch.query, 0, n);
  const TensorView latent = row_slice(scratch.latent, 0, n);
  const TensorView absorbed = row_slice(scratch.absorbed, 0, n);
  const TensorView result = row_slice(scratch.heads, 0, n);
  const TensorView values = row_slice(scratch.values, 0, n);
  if (mla.query_down) {
    const TensorView down = row_slice(scratch.query_down, 0, n);
    apply(ops, ctx, *mla.query_down, down, x);
    apply(ops, ctx, *mla.query_norm, down, down);
    apply(ops, ctx, mla.query, query, down);
    if (mla.indexer) choose(ops, ctx, *mla.indexer, mla.sizes, x, down, batch, cache, scratch);
  } else {
    apply(ops, ctx, mla.query, query, x);
  }
  if (mla.growth != nullptr)
    apply_to_queries(ops, ctx, *mla.growth, head_view(query, heads), batch.positions);
  apply(ops, ctx, mla.latent, latent, x);
  const TensorView vector = column_slice(latent, mla.sizes.turning, cached);
  apply(ops, ctx, mla.latent_norm, vector, vector);
  for (int64_t h = 0; h < heads; ++h) {
    apply(ops, ctx, mla.absorb[static_cast<size_t>(h)], column_slice(absorbed, h * cached, (h + 1) * cached),
          column_slice(query, h * query_dim, (h + 1) * query_dim));
  }
  const TensorView q = head_view(absorbed, heads);
  const TensorView k = head_view(latent, 1);
  if (rope != nullptr) apply(ops, ctx, *rope, q, k, batch.positions);
  const KvCacheView vectors = latent_cache(cache, mla.sizes);
  ops.kv_write(ctx, vectors, k, {}, batch.slot_mapping);
  AttentionParams params = mla.params;
  if (has_choice(mla.sizes, batch.attention)) params.chosen = scratch.chosen;
  ops.paged_attention(ctx, head_view(result, heads), q, vectors, batch.attention, params);
  for (int64_t h = 0; h < heads; ++h) {
    apply(ops, ctx, mla.expand[static_cast<size_t>(h)],
          column_slice(values, h * mla.sizes.value, (h + 1) * mla.sizes.value),
          column_slice(result, h * mla.sizes.latent, (h + 1) * mla.sizes.latent));
  }
  if (mla.gate) {
    const TensorView gates = row_slice(scratch.gates, 0, n);
    apply(ops, ctx, *mla.gate, gates, x);
    ops.gate(ctx, values, values, gates, Activation::kSigmoid);
  }
  apply(ops, ctx, mla.out, out, values, residual);
}

}  // namespace quire
