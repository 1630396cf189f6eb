// Transformer blocks whose weights several layers share (Zamba): parameter names. Plain data.
#pragma once

#include <cstdint>

#include "nn/attention_spec.h"
#include "nn/mlp_spec.h"
#include "nn/param_id.h"

namespace quire {

namespace shared_block {
inline constexpr ParamId kInputNorm{
    "shared_block.input_layernorm"};                      // over the hidden states and the embeddings
inline constexpr ParamId kLinear{"shared_block.linear"};  // one per use
inline constexpr ParamId kQLoraA{"shared_block.linear_q_adapter.0"};  // adapters of each use
inline constexpr ParamId kQLoraB{"shared_block.linear_q_adapter.1"};
inline constexpr ParamId kKLoraA{"shared_block.linear_k_adapter.0"};
inline constexpr ParamId kKLoraB{"shared_block.linear_k_adapter.1"};
inline constexpr ParamId kVLoraA{"shared_block.linear_v_adapter.0"};
inline constexpr ParamId kVLoraB{"shared_block.linear_v_adapter.1"};
inline constexpr ParamId kGateUpLoraA{"shared_block.gate_up_proj_adapter.0"};
inline constexpr ParamId kGateUpLoraB{"shared_block.gate_up_proj_adapter.1"};
}  // namespace shared_block

// The adapters of all uses.
struct SharedBlockSpec {
  int64_t rank = 0;                 // rank of the adapters
  bool attention_adapters = false;  // adapters on q, k and v, in addition to those of the MLP
};

// A transformer block before the layer's own mixer, whose weights several layers share (Zamba 2). Each use
// has adapters, keys and values of its own.
struct SharedBlockUseSpec {
  SharedBlockSpec adapters;
  int32_t owner = 0;  // the first layer that uses the block
  int32_t use = 0;    // number of this use among the uses of all blocks
  AttentionSpec attention;
  MlpSpec mlp;
};

}  // namespace quire
