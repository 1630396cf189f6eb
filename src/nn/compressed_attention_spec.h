// Attention to compressed keys (DeepSeek-V4): parameter names. Plain data.
#pragma once

#include <cstdint>

#include "nn/indexer_spec.h"
#include "nn/kv_shape.h"
#include "nn/mixer_traits.h"
#include "nn/norm_spec.h"
#include "nn/param_id.h"
#include "nn/recurrent_spec.h"

namespace quire {

namespace compressed {
inline constexpr ParamId kQAProj{"compressed.wq_a"};
inline constexpr ParamId kQANorm{"compressed.q_norm"};
inline constexpr ParamId kQProj{"compressed.wq_b"};
inline constexpr ParamId kKProj{"compressed.wkv"};
inline constexpr ParamId kKNorm{"compressed.kv_norm"};
inline constexpr ParamId kKvProj{"compressed.compressor.wkv"};
inline constexpr ParamId kGateProj{"compressed.compressor.wgate"};
inline constexpr ParamId kPositionBias{"compressed.compressor.ape"};
inline constexpr ParamId kNorm{"compressed.compressor.norm"};
inline constexpr ParamId kIndexQProj{"compressed.indexer.wq_b"};
inline constexpr ParamId kIndexWeightsProj{"compressed.indexer.weights_proj"};
inline constexpr ParamId kIndexKProj{"compressed.indexer.compressor.wkv"};
inline constexpr ParamId kIndexKGate{"compressed.indexer.compressor.wgate"};
inline constexpr ParamId kIndexKPositionBias{"compressed.indexer.compressor.ape"};
inline constexpr ParamId kIndexKNorm{"compressed.indexer.compressor.norm"};
inline constexpr ParamId kOAProj{"compressed.wo_a"};  // one matrix per group of heads
inline constexpr ParamId kOBProj{"compressed.wo_b"};
inline constexpr ParamId kSinks{"compressed.attn_sink"};
}  // namespace compressed

// One layer.
struct CompressedAttentionSpec {
  int32_t q_lora_rank = 0;
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t groups = 0;  // groups of heads, each with its own output projection (o_groups)
  int64_t rank = 0;    // o_lora_rank: outputs of one group
  IndexerSizes index;  // indexer of the layers that have one
  bool indexer = false;
  int64_t hidden_size = 0;
  NormSpec norm = {};
  int32_t compressed_tokens = 0;  // tokens per compressed key; 0 = the layer attends to its window only
  bool overlap = false;           // consecutive keys share tokens
  bool qkv_bias = false;
  bool o_bias = false;
  float scale = 1.0F;
  int32_t window = 0;
  int32_t inverse_rope = -1;  // index of the rotary embedding that rotates the output back

  int64_t query() const { return int64_t{heads} * head_dim; }
  // State that a layer keeps per sequence, for its compressor and for the compressor of its indexer.
  RecurrentSizes recurrent() const;
};

KvShape kv_shape(const CompressedAttentionSpec& spec);
int64_t kv_bytes(const CompressedAttentionSpec& spec, DType dtype, int32_t block_size);
MixerTraits mixer_traits(const CompressedAttentionSpec& spec);
std::unique_ptr<Mixer> make_mixer(const CompressedAttentionSpec& spec);

// Maximum number of cache slots of a sequence with `tokens` tokens.
int64_t compressed_places(int64_t tokens);

}  // namespace quire
