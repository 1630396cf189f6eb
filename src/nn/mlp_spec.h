// Feed-forward layers: parameter names and what differs between models. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
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
  float limit = 0.0F;                // Mlp::limit; 0 = none
  bool limit_first = false;          // Mlp::limit_first
};

// Names and labels of the matrices: a dense MLP, an expert and a shared expert differ in nothing else.
struct MlpParams {
  ParamId gate_proj = mlp::kGateProj;
  ParamId up_proj = mlp::kUpProj;
  ParamId down_proj = mlp::kDownProj;
  std::string_view up_label = "mlp up";
  std::string_view down_label = "mlp down";
  bool move_scales = true;  // AWQ may move scales between up_proj and down_proj
};

}  // namespace quire
