// The indexer of sparse attention selects the keys that a query attends to. It has few small query heads and
// one small key per token, which is cached after the layer's own keys. DeepSeek-V3.2 (arXiv 2512.02556)
// selects single keys for all heads, by the weighted sum of the head scores. MiniMax-M3 selects blocks of
// keys; each indexer head selects for one KV head of attention. Only the order of the scores matters, so
// factors common to all of them are left out.
#pragma once

#include <cstdint>
#include <optional>

#include "nn/indexer_spec.h"
#include "nn/mixer.h"

namespace quire {

// Weights are read-only after load.
struct Indexer {
  IndexerSizes sizes;
  Linear query;  // [heads dim, size of the queries' input]
  Linear key;    // [dim, hidden]
  std::optional<Norm> query_norm;
  Norm key_norm;
  std::optional<Linear> weights;  // [heads, hidden]: head weights; set if single keys are selected
};

struct IndexerScratch {
  IndexerSizes sizes;
  ScratchLayout& layout;
  TensorView query = layout.matrix(int64_t{sizes.heads} * sizes.dim);
  TensorView key = layout.matrix(sizes.dim);
  TensorView weights = layout.matrix(sizes.heads);
  SparseMask chosen = {};  // in memory of its own: later layers may use it too
};

// The keys of the indexer, which are stored `offset` bytes after those of the layer.
KvCacheView index_cache(const KvCacheView& layer, int64_t offset, const IndexerSizes& sizes);

// Returns whether any row has more visible keys than it may attend to.
bool has_choice(const IndexerSizes& sizes, const ForwardBatch& batch);

// Stores the keys of x [rows, hidden]. If has_choice(), sets scratch.chosen to the selected keys. queries:
// input of the query projection.
void choose(const OpRunner& run, const Indexer& indexer, const Rope& rope, const TensorView& x,
            const TensorView& queries, const ForwardBatch& batch, const KvCacheView& keys,
            const IndexerScratch& scratch);

// norm: QK norm, if blocks are selected. queries: input of wq_b.
void visit(const IndexerSizes& sizes, const NormSpec& norm, const InputSpec& x, const InputSpec& queries,
           ParamVisitor& visitor, Indexer& indexer);

}  // namespace quire
