#include "nn/mla.h"

#include "nn/scratch.h"

namespace quire {
namespace {

// Lays the scratch out from `memory` on; null: only counts. Returns its end.
int64_t place(const MlaSizes& sizes, const IndexerSizes& indexer, int64_t num_heads, int64_t rows,
              float* memory, MlaScratch& out) {
  ScratchLayout at(rows, memory);
  out.query_down = at.matrix(sizes.query_rank);
  out.query = at.matrix(num_heads * sizes.query_dim());
  out.latent = at.matrix(sizes.cached());
  out.absorbed = at.matrix(num_heads * sizes.cached());
  out.heads = at.matrix(num_heads * sizes.latent);
  out.values = at.matrix(num_heads * sizes.value);
  out.gates = at.matrix(sizes.gated ? num_heads : 0);
  out.indexer = place_indexer(indexer, at);
  return at.size();
}

// The vectors: what turns of a key, then what is its value too.
KvCacheView latent_cache(const KvCacheView& cache, const MlaSizes& sizes) {
  KvCacheView vectors = cache;
  vectors.value_dim = sizes.latent;
  vectors.values_in_keys = true;
  return vectors;
}

}  // namespace

int64_t mla_scratch_size(const MlaSizes& sizes, const IndexerSizes& indexer, int64_t num_heads,
                         int64_t rows) {
  MlaScratch unused;
  return place(sizes, indexer, num_heads, rows, nullptr, unused);
}

MlaScratch make_mla_scratch(const MlaSizes& sizes, const IndexerSizes& indexer, int64_t num_heads,
                            int64_t rows, float* memory) {
  MlaScratch out;
  place(sizes, indexer, num_heads, rows, memory, out);
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
    if (mla.indexer) {
      const int64_t vectors = kv_part_bytes(cache.dtype, cache.block_size, 1, cache.head_dim);
      choose(ops, ctx, *mla.indexer, x, down, batch, index_cache(cache, vectors, mla.choice),
             scratch.indexer);
    }
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
  if (has_choice(mla.choice, batch.attention)) params.chosen = scratch.indexer.chosen;
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
