// Attention to the tokens of a window, and to keys that stand for several tokens each (DeepSeek-V4): a
// weighed mean of what these give. One key head, whose keys are its values too. Of many such keys an indexer
// chooses those that count, by short keys that are made in the same way. What a window of tokens that is not
// complete has given so far is a state of the sequence.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/indexer.h"
#include "nn/layers.h"
#include "nn/recurrent.h"
#include "nn/scratch.h"
#include "ops/compressed_keys.h"

namespace quire {

struct CompressedSizes {
  int32_t query_rank = 0;  // of the queries' own short vector
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t groups = 0;  // of heads, each with an output projection of its own
  int64_t rank = 0;    // of what such a projection gives
  IndexerSizes index;  // of layers that choose

  int64_t query() const { return int64_t{heads} * head_dim; }
};

// Makes a key of so many tokens. Weights are read-only after load.
struct Compressor {
  Linear parts;  // [2 width, hidden]: what the tokens give, then how much of it; width: as `bias`
  Buffer bias;   // float32 [tokens, width]: of a token's place; twice as wide as a key: windows overlap
  Norm norm;
  int32_t tokens = 1;
  bool overlap = false;

  int64_t width() const { return (overlap ? 2 : 1) * norm.size; }
};

// What chooses among such keys.
struct CompressedIndexer {
  Linear query;    // [heads dim, query_rank]
  Linear weights;  // [heads, hidden]
  Compressor keys;
};

// Weights are read-only after load.
struct CompressedAttention {
  CompressedSizes sizes;
  Linear query_down;  // [query_rank, hidden]
  Norm query_norm;
  Linear query;    // [heads head_dim, query_rank]
  Norm head_norm;  // of each query head, without weights
  Linear key;      // [head_dim, hidden]
  Norm key_norm;
  const Rope* back = nullptr;  // turns the result back by the query's position, since values turn as keys do
  std::optional<Compressor> compressor;
  std::optional<CompressedIndexer> indexer;
  Buffer nothing;                // float32 [head_dim] zeros: what lies where no key is yet
  std::vector<Linear> out_down;  // [groups] of [rank, heads / groups * head_dim]
  Linear out;                    // [hidden, groups rank]
  Buffer sinks;                  // float32 [heads]
  AttentionParams params;        // its window holds for the tokens' own keys
};

// What a layer carries along a sequence: of the compressor, and of that of its indexer.
RecurrentSizes compressed_states(const CompressedSizes& sizes, bool overlap, bool indexer);

// Bytes that a layer with such keys keeps of the tokens of a block; tokens 0: there are none.
int64_t compressed_bytes(const CompressedSizes& sizes, int32_t tokens, bool indexer, DType dtype,
                         int32_t block_size);

// Places of a cache that sequences of so many tokens may take.
int64_t compressed_places(int64_t tokens);

// Views of one piece of memory for so many rows.
struct CompressedScratch {
  TensorView query_down;       // [rows, query_rank]
  TensorView query;            // [rows, heads head_dim]
  TensorView key;              // [rows, head_dim]
  TensorView heads;            // [rows, heads head_dim]
  TensorView low;              // [rows, groups rank]
  TensorView parts;            // [rows, 4 head_dim], or of the indexer
  TensorView compressed;       // [rows, head_dim]
  TensorView index_query;      // [rows, heads dim] of the indexer
  TensorView index_key;        // [rows, dim]
  TensorView index_weights;    // [rows, heads]
  std::span<int64_t> slots;    // [rows]
  std::span<int32_t> firsts;   // [rows] the first token of the window that a row ends
  std::span<int32_t> lengths;  // [rows] of sequences, in places
  KeyMask chosen;              // in memory of its own
  KeyMask picked;              // by the indexer; the same
};
// All but the masks.
CompressedScratch place_compressed(const CompressedSizes& sizes, ScratchLayout& at);

// out = attention(x). The cache is the layer's own part of the pool, in tokens (compressed_bytes). out may be
// x.
void apply(const OpTable& ops, const OpContext& ctx, const CompressedAttention& attention, const Rope& rope,
           const TensorView& out, const TensorView& x, const ForwardBatch& batch, const KvCacheView& cache,
           const LayerState& state, const CompressedScratch& scratch);

}  // namespace quire
