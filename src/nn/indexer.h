// Chooses the keys that a query attends to: short queries of few heads meet one short key of each token,
// which the cache holds behind the layer's own. Either single keys for all heads (DeepSeek-V3.2, arXiv
// 2512.02556), by the weighed sum of what the heads give, or blocks of keys (MiniMax-M3), by each head for
// one key head of attention. Only the order of scores counts, so what all of them would be multiplied with is
// left out.
#pragma once

#include <cstdint>
#include <optional>

#include "nn/layers.h"
#include "nn/scratch.h"

namespace quire {

struct IndexerSizes {
  int32_t heads = 0;  // 0: queries attend to all keys
  int32_t dim = 0;
  int32_t count = 0;  // keys of a query at the most, or blocks
  int32_t block = 0;  // keys in a block; 0: single ones are chosen
  int32_t local = 0;  // KeyBlocks::local

  // Of sequences that have no more tokens, queries attend to all of them.
  int64_t tokens() const { return int64_t{count} * (block > 0 ? block : 1); }
  int64_t masks() const { return block > 0 ? heads : 1; }  // KeyMask::heads
};

// Weights are read-only after load.
struct Indexer {
  IndexerSizes sizes;
  Linear query;  // [heads dim, what queries are made of]
  Linear key;    // [dim, hidden]
  std::optional<Norm> query_norm;
  Norm key_norm;
  std::optional<Linear> weights;  // [heads, hidden], of the heads; where single keys are chosen
  const Rope* rope = nullptr;
};

// Views of one piece of memory for so many rows.
struct IndexerScratch {
  TensorView query;    // [rows, heads dim]
  TensorView key;      // [rows, dim]
  TensorView weights;  // [rows, heads]
  KeyMask chosen;      // in memory of its own: it stays from layer to layer
};
// All but the mask.
IndexerScratch place_indexer(const IndexerSizes& sizes, ScratchLayout& at);

// The keys of the indexer, which begin so many bytes behind those of the layer.
KvCacheView index_cache(const KvCacheView& layer, int64_t offset, const IndexerSizes& sizes);

// Some row sees more keys than it attends to.
bool has_choice(const IndexerSizes& sizes, const AttentionBatch& batch);

// Stores the keys of x [rows, hidden]; where there is a choice, makes it into scratch.chosen. queries: what
// queries are made of.
void choose(const OpTable& ops, const OpContext& ctx, const Indexer& indexer, const TensorView& x,
            const TensorView& queries, const ForwardBatch& batch, const KvCacheView& keys,
            const IndexerScratch& scratch);

}  // namespace quire
