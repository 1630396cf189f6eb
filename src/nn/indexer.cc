#include "nn/indexer.h"

#include <algorithm>

namespace quire {

KvCacheView index_cache(const KvCacheView& layer, int64_t offset, const IndexerSizes& sizes) {
  KvCacheView keys = layer;
  keys.layer_offset += offset;
  keys.num_kv_heads = 1;
  keys.head_dim = sizes.dim;
  keys.value_dim = 0;
  keys.values_in_keys = true;  // the indexer has no values
  return keys;
}

bool has_choice(const IndexerSizes& sizes, const ForwardBatch& batch) {
  return sizes.heads > 0 &&
         std::ranges::any_of(batch.host.seq_lens, [&](int32_t length) { return length > sizes.tokens(); });
}

void choose(const OpRunner& run, const Indexer& indexer, const Rope& rope, const TensorView& x,
            const TensorView& queries, const ForwardBatch& batch, const KvCacheView& keys,
            const IndexerScratch& scratch) {
  const IndexerSizes& sizes = indexer.sizes;
  const TensorView& key = scratch.key;
  apply(run, indexer.key, key, x);
  apply(run, indexer.key_norm, key, key);
  apply_to_queries(run, rope, head_view(key, 1), batch.positions);
  run(ops::KvWrite{.cache = keys, .k = head_view(key, 1), .slot_mapping = batch.slot_mapping});
  if (!has_choice(sizes, batch)) return;
  const TensorView query = head_view(scratch.query, sizes.heads);
  apply(run, indexer.query, scratch.query, queries);
  if (indexer.query_norm) apply(run, *indexer.query_norm, query, query);
  apply_to_queries(run, rope, query, batch.positions);
  if (sizes.block > 0) {
    run(ops::TopkBlocks{.mask = scratch.chosen,
                        .q = query,
                        .keys = keys,
                        .batch = batch.attention,
                        .blocks = {.size = sizes.block, .count = sizes.count, .local = sizes.local}});
    return;
  }
  apply(run, *indexer.weights, scratch.weights, x);
  run(ops::TopkKeys{.mask = scratch.chosen,
                    .q = query,
                    .weights = scratch.weights,
                    .keys = keys,
                    .batch = batch.attention,
                    .count = sizes.count,
                    .tokens_per_key = 1});
}

void visit(const IndexerSizes& sizes, const NormSpec& norm, const InputSpec& x, const InputSpec& queries,
           ParamVisitor& visitor, Indexer& indexer) {
  indexer.sizes = sizes;
  const int64_t dim = sizes.dim;
  const ParamSpec q = replicated(indexer::kQProj, int64_t{sizes.heads} * dim, queries.size);
  visit_matrix(visitor, "linear", after_norm(q, queries.norm), indexer.query);
  visit_matrix(visitor, "linear", after_norm(replicated(indexer::kKProj, dim, x.size), x.norm), indexer.key);
  if (sizes.block > 0) {
    visit_norm(visitor, indexer::kKNorm, norm, dim, indexer.key_norm);
    visit_norm(visitor, indexer::kQNorm, norm, dim, indexer.query_norm.emplace());
    return;
  }
  // transformers' DeepseekV32Indexer has a LayerNorm with this eps, regardless of the model's norms.
  constexpr NormSpec kLayerNorm = {.kind = NormKind::kLayer, .eps = 1e-6F, .bias = true};
  visit_norm(visitor, indexer::kKNorm, kLayerNorm, dim, indexer.key_norm);
  const ParamSpec weights = after_norm(replicated(indexer::kWeightsProj, sizes.heads, x.size), x.norm);
  visit_matrix(visitor, "linear", weights, indexer.weights.emplace(), Precision::kFloat32);
}

}  // namespace quire
