// Mixture of experts: parameter names. Plain data.
#pragma once

#include <cstdint>

#include "nn/param_id.h"
#include "ops/op_table.h"

namespace quire {

namespace moe {
inline constexpr ParamId kRouter{"moe.gate"};
inline constexpr ParamId kCorrectionBias{"moe.e_score_correction_bias"};
inline constexpr ParamId kTokenExperts{"moe.tid2eid"};  // the experts of each token (hash routing)
inline constexpr ParamId kExpertGateProj{"moe.experts.gate_proj"};
inline constexpr ParamId kExpertUpProj{"moe.experts.up_proj"};
inline constexpr ParamId kExpertDownProj{"moe.experts.down_proj"};
inline constexpr ParamId kSharedGateProj{"moe.shared_expert.gate_proj"};
inline constexpr ParamId kSharedUpProj{"moe.shared_expert.up_proj"};
inline constexpr ParamId kSharedDownProj{"moe.shared_expert.down_proj"};
inline constexpr ParamId kSharedExpertGate{"moe.shared_expert_gate"};
inline constexpr ParamId kOutputBias{"moe.bias"};  // bias of the sum of all experts (JetMoE)
inline constexpr ParamId kExpertScale{"moe.per_expert_scale"};
inline constexpr ParamId kRouterNorm{
    "moe.router.scale"};  // norm of the router's input, if a dense MLP runs in parallel (Gemma 4)
inline constexpr ParamId kExpertsNorm{
    "moe.pre_feedforward_layernorm_2"};  // norm of the experts' input (Gemma 4)
inline constexpr ParamId kExpertsOutputNorm{
    "moe.post_feedforward_layernorm_2"};  // norm of their output (Gemma 4)
inline constexpr ParamId kMlpOutputNorm{
    "moe.post_feedforward_layernorm_1"};  // norm of the parallel MLP's output
}  // namespace moe

// The experts of one layer.
struct MoeSpec {
  int32_t num_experts = 0;
  int32_t zero_expert_num =
      0;  // zero-computation experts, numbered after the others: they return their input
  int64_t intermediate_size = 0;         // intermediate size of one expert
  int64_t shared_intermediate_size = 0;  // intermediate size of the shared expert; 0 = none
  bool shared_gate = false;              // its output is multiplied by a sigmoid gate
  RouterParams router;
  bool e_score_correction_bias = false;  // the router has one
  bool router_bias = false;
  bool expert_bias = false;
  bool output_bias = false;  // a bias is added to the sum of all experts (JetMoE)
  bool apply_router_weight_on_input = false;
  bool expert_scale = false;  // per_expert_scale (Gemma 4)
  bool gated = true;          // experts are gated MLPs
  bool limit_first = false;   // clamp gates before the activation
  float expert_limit = 0.0F;  // MlpSpec::limit of the experts
  float shared_limit = 0.0F;  // MlpSpec::limit of the shared expert
  Activation activation = Activation::kSilu;
  bool shared_bias = false;
  // A table of this many rows has the experts of each token (DeepSeek-V4's first layers); 0 = the router
  // selects them.
  int64_t hash_vocab_size = 0;

  int32_t routed() const { return num_experts + zero_expert_num; }  // outputs of the router
  // Terms of the sum of one row: top-k, and the shared expert.
  int64_t terms_per_row() const {
    return router.num_experts_per_tok + (shared_intermediate_size > 0 ? 1 : 0);
  }
};

}  // namespace quire
