// Attention to a sliding window of tokens and to compressed keys, each a weighted mean over several tokens
// (DeepSeek-V4). There is one key head, whose keys are also its values. In layers with an indexer, the
// indexer selects the top-k compressed keys, by keys of its own that are compressed in the same way. The
// tokens of an incomplete compression window are recurrent state of the sequence.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/compressed_attention_spec.h"
#include "nn/indexer.h"
#include "nn/layers.h"
#include "nn/mixer.h"
#include "nn/params.h"
#include "nn/recurrent.h"
#include "nn/scratch.h"
#include "ops/compressed_keys.h"

namespace quire {

// Compresses `tokens` tokens into one key. Weights are read-only after load.
struct Compressor {
  Linear parts;  // [2 width, hidden]: values, then gates
  Buffer bias;   // float32 [tokens, width]: bias of the gates by position in the window
  Norm norm;
  int32_t tokens = 1;
  bool overlap = false;  // consecutive windows overlap, so that each token contributes to two keys

  int64_t width() const { return (overlap ? 2 : 1) * norm.size; }
};

// The indexer of compressed keys.
struct CompressedIndexer {
  Linear q_proj;   // [heads dim, q_lora_rank]
  Linear weights;  // [heads, hidden]
  Compressor keys;
};

// Weights are read-only after load.
struct CompressedAttention {
  CompressedSizes sizes;
  Linear q_a_proj;  // [q_lora_rank, hidden]
  Norm q_a_norm;
  Linear q_proj;   // [heads head_dim, q_lora_rank]
  Norm head_norm;  // over each query head, without weights
  Linear kv_proj;  // [head_dim, hidden]
  Norm kv_norm;
  const Rope* inverse_rope = nullptr;  // inverse RoPE of the result: values are keys, which are rotated
  std::optional<Compressor> compressor;
  std::optional<CompressedIndexer> indexer;
  Buffer zeros;                  // float32 [head_dim]: written to slots that have no key yet
  std::vector<Linear> o_a_proj;  // [groups] of [rank, heads / groups * head_dim]
  Linear o_b_proj;               // [hidden, groups rank]
  Buffer sinks;                  // float32 [heads]
  AttentionParams params;        // its window applies to the uncompressed keys
};

// out = attention(x). There is no residual. The cache is the layer's own part of the pool, which holds
// compressed_bytes() per block.
void apply(const OpRunner& run, const CompressedAttention& attention, const MixerArgs& args);
void count_scratch(const CompressedAttention& attention, ScratchLayout& layout);

// Sets everything except inverse_rope.
void visit(const CompressedAttentionSpec& spec, const InputSpec& x, ParamVisitor& visitor,
           CompressedAttention& attention);

}  // namespace quire
