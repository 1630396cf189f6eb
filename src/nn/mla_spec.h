// Multi-head latent attention: parameter names and what differs between models. Plain data.
#pragma once

#include <cstdint>

#include "nn/indexer_spec.h"
#include "nn/kv_shape.h"
#include "nn/mixer_traits.h"
#include "nn/norm_spec.h"
#include "nn/param_id.h"

namespace quire {

namespace mla {
inline constexpr ParamId kQAProj{"mla.q_a_proj"};
inline constexpr ParamId kQANorm{"mla.q_a_layernorm"};
inline constexpr ParamId kQProj{"mla.q_proj"};  // also q_b_proj
inline constexpr ParamId kKvAProj{"mla.kv_a_proj_with_mqa"};
inline constexpr ParamId kKvANorm{"mla.kv_a_layernorm"};
inline constexpr ParamId kKvBProj{"mla.kv_b_proj"};  // W_UK and W_UV by head
inline constexpr ParamId kKBProj{"mla.k_b_proj"};    // W_UK alone, each head transposed
inline constexpr ParamId kVBProj{"mla.v_b_proj"};    // W_UV alone
inline constexpr ParamId kOutputGate{"mla.output_gate"};
inline constexpr ParamId kOProj{"mla.o_proj"};
}  // namespace mla

// One layer.
struct MlaSpec {
  int32_t num_heads = 0;
  int64_t hidden_size = 0;
  int32_t q_lora_rank = 0;  // 0 = queries are projected directly
  int32_t kv_lora_rank = 0;
  int32_t qk_rope_head_dim = 0;
  int32_t qk_nope_head_dim = 0;
  int32_t v_head_dim = 0;
  bool gated = false;  // one output gate per head
  bool qkv_bias = false;
  bool o_bias = false;
  NormSpec norm = {};
  float latent_multiplier = 1.0F;  // factor on the normalized latent vector
  float attention_scale = 1.0F;
  IndexerSizes index = {};   // heads 0 = every query attends to all keys
  bool has_indexer = false;  // otherwise the keys that an earlier layer selected
  int32_t index_rope = -1;   // index of the rotary embedding of the indexer
  // Index of a rotary embedding that scales whole queries with their position without rotating them; -1 =
  // none.
  int32_t query_scale_rope = -1;

  // Elements in the cache per token: the rotary key, then the latent vector.
  int32_t cache_dim() const { return qk_rope_head_dim + kv_lora_rank; }
  // Size of a projected query head.
  int32_t query_dim() const { return qk_nope_head_dim + qk_rope_head_dim; }
};

KvShape kv_shape(const MlaSpec& spec);
int64_t kv_bytes(const MlaSpec& spec, DType dtype, int32_t block_size);
MixerTraits mixer_traits(const MlaSpec& spec);
std::unique_ptr<Mixer> make_mixer(const MlaSpec& spec);

}  // namespace quire
