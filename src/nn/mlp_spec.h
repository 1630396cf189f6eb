// Feed-forward layers: parameter names and what differs between models. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include "nn/norm_spec.h"
#include "nn/param_id.h"
#include "ops/op_table.h"

namespace quire {

namespace mlp {
inline constexpr ParamId kGateProj{"mlp.gate_proj"};
inline constexpr ParamId kUpProj{"mlp.up_proj"};
inline constexpr ParamId kDownProj{"mlp.down_proj"};
inline constexpr ParamId kSubNorm{"mlp.ffn_sub_norm"};   // before down_proj (BitNet)
inline constexpr ParamId kAlphaP{"mlp.act_fn.alpha_p"};  // xIELU
inline constexpr ParamId kAlphaN{"mlp.act_fn.alpha_n"};
inline constexpr ParamId kBeta{"mlp.act_fn.beta"};
inline constexpr ParamId kEps{"mlp.act_fn.eps"};
}  // namespace mlp

// One feed-forward layer, or one expert.
struct MlpSpec {
  int64_t intermediate_size = 0;
  bool gated = true;
  bool bias = false;
  bool down_bias = false;
  Activation activation = Activation::kSilu;
  bool xielu = false;                // instead of the activation; not gated
  float gate_multiplier = 1.0F;      // factor on gates before the activation
  std::optional<NormSpec> sub_norm;  // before down_proj
  double activation_sparsity = 0.0;  // fraction of the gates that become zero (Gemma 3n)
  // Gated only. The activation's output is at most `limit`, ups are clamped to [-limit, limit]. 0 = no limit.
  float limit = 0.0F;
  bool limit_first = false;  // gates are clamped before the activation instead of after it

  int64_t up_size() const { return gated ? 2 * intermediate_size : intermediate_size; }
};

}  // namespace quire
