// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): keys and values of all heads come out of one
// short vector for each token, and the cache holds that alone. What would make keys of it is multiplied into
// the queries instead, what would make values of it into the result.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/indexer.h"
#include "nn/layers.h"

namespace quire {

struct MlaSizes {
  int32_t query_rank = 0;  // of the queries' own short vector; 0: they come from the hidden states
  int32_t latent = 0;      // of the keys' and values' short vector
  int32_t turning = 0;     // dimensions that turn, of a query head and of the one key they share
  int32_t still = 0;       // of a query head, those that do not
  int32_t value = 0;       // of a head of the result
  bool gated = false;      // each head of the result has a gate

  int32_t cached() const { return turning + latent; }    // of a token: what turns, then the short vector
  int32_t query_dim() const { return still + turning; }  // of a query head as it is projected
};

// Weights are read-only after load.
struct Mla {
  MlaSizes sizes;
  std::optional<Linear> query_down;  // [query_rank, hidden]
  std::optional<Norm> query_norm;
  Linear query;                    // [num_heads query_dim, query_rank or hidden]
  Linear latent;                   // [cached, hidden]: what turns first
  Norm latent_norm;                // over the short vector
  const Rope* growth = nullptr;    // what all of a query goes through besides, without turning; or null
  std::vector<Linear> absorb;      // [num_heads] of [cached, query_dim]: a query as the cache's vectors are
  std::vector<Linear> expand;      // [num_heads] of [value, latent]
  std::optional<Linear> gate;      // [num_heads, hidden]: each head is multiplied with the sigmoid of one
  Linear out;                      // [hidden, num_heads value]
  IndexerSizes choice;             // of what chooses the keys that count: the indexer or
  std::optional<Indexer> indexer;  // none: that of an earlier layer
  AttentionParams params;

  int64_t num_heads() const { return static_cast<int64_t>(absorb.size()); }
};

// Views of one piece of memory for so many rows.
struct MlaScratch {
  TensorView query_down;  // [rows, query_rank]
  TensorView query;       // [rows, num_heads query_dim]
  TensorView latent;      // [rows, cached]
  TensorView absorbed;    // [rows, num_heads cached]
  TensorView heads;       // [rows, num_heads latent]
  TensorView values;      // [rows, num_heads value]
  TensorView gates;       // [rows, num_heads]
  IndexerScratch indexer;
};
// Floats that the scratch takes.
int64_t mla_scratch_size(const MlaSizes& sizes, const IndexerSizes& indexer, int64_t num_heads, int64_t rows);
MlaScratch make_mla_scratch(const MlaSizes& sizes, const IndexerSizes& indexer, int64_t num_heads,
                            int64_t rows, float* memory);

// out = attention(x) (+ residual, which may be out). rope null: positions are not turned in. out may be x.
// The cache has one key head of `cached` dimensions, the last of which are its values; behind these keys, of
// a layer with an indexer, its keys.
void apply(const OpTable& ops, const OpContext& ctx, const Mla& mla, const Rope* rope, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const KvCacheView& cache, const MlaScratch& scratch);

}  // namespace quire
