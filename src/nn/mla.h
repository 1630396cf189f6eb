// Multi-head latent attention (MLA; DeepSeek-V2, arXiv 2405.04434). The cache holds one latent vector per
// token and one rotary key, from which the keys and values of all heads are projected. Instead of these
// projections, W_UK is applied to the queries and W_UV to the result (absorbed weights).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/indexer.h"
#include "nn/layers.h"
#include "nn/mixer.h"
#include "nn/mla_spec.h"
#include "nn/params.h"

namespace quire {

// Weights are read-only after load.
struct Mla {
  MlaSizes sizes;
  std::optional<Linear> q_a_proj;  // [q_lora_rank, hidden]
  std::optional<Norm> q_a_norm;
  Linear q_proj;                     // [num_heads query_dim, q_lora_rank or hidden]
  Linear kv_a_proj;                  // [cached, hidden]: kv_a_proj_with_mqa with the rotary dimensions first
  Norm kv_a_norm;                    // over the latent vector
  const Rope* attn_scale = nullptr;  // scales whole queries by position without rotating them; null = none
  std::vector<Linear> w_uk;          // [num_heads] of [cached, query_dim]: W_UK and, for rotary dimensions, 1
  std::vector<Linear> w_uv;          // [num_heads] of [v_head_dim, kv_lora_rank]: W_UV
  std::optional<Linear> gate;      // [num_heads, hidden]: each head is multiplied by the sigmoid of its gate
  Linear o_proj;                   // [hidden, num_heads v_head_dim]
  IndexerSizes index;              // sizes of the indexer that selects keys; heads 0 = none
  std::optional<Indexer> indexer;  // nullopt = the keys that an earlier layer selected
  AttentionParams params;

  int64_t num_heads() const { return static_cast<int64_t>(w_uk.size()); }
};

// out = attention(x) (+ residual). The cache has one key head of cache_dim() dimensions, the last
// kv_lora_rank of which are also its value. If the layer has an indexer, the indexer's keys follow.
void apply(const OpRunner& run, const Mla& mla, const MixerArgs& args);
void count_scratch(const Mla& mla, ScratchLayout& layout);

// Sets everything except the indexer and attn_scale.
void visit(const MlaSpec& spec, const InputSpec& x, ParamVisitor& visitor, Mla& mla);

}  // namespace quire
