// Mixture of experts: each row goes through the few expert MLPs that the router selects for it. Weights are
// read-only after load.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nn/layers.h"
#include "nn/moe_spec.h"
#include "nn/params.h"
#include "nn/scratch.h"

namespace quire {

// y = sum over a row's experts of weight * expert(x) (+ shared(x), multiplied by the sigmoid of its gate if
// it has one).
struct Moe {
  Linear router;  // [num_experts, hidden]
  Buffer
      e_score_correction_bias;  // float32 [num_experts] or empty; params.e_score_correction_bias points to it
  Buffer tid2eid;               // int32 [vocab_size, num_experts_per_tok] or empty: each token's experts
                                // (params.hash_routing)
  RouterParams params;
  // All have the same shape. Zero-computation experts follow them in the router's numbering.
  std::vector<Mlp> experts;
  std::optional<Mlp> shared;          // applied to every row
  std::optional<Linear> shared_gate;  // [1, hidden]
  Buffer output_bias;                 // float32 [hidden] or empty: added to the sum
  Buffer expert_scale;  // float32 [num_experts] or empty: factor on the router weights of an expert
  bool apply_router_weight_on_input =
      false;  // weights multiply the expert's input instead of its output (Llama 4)

  // Terms of the sum of one row: top-k, and the shared expert.
  int64_t terms_per_row() const { return params.num_experts_per_tok + (shared ? 1 : 0); }
};

struct MoeScratch {
  TensorView logits;         // [rows, num_experts]
  TensorView weights;        // [rows, terms], the shared expert's last
  TensorView shared_logits;  // [rows, 1]
  TensorView
      input_weights;  // [rows * num_experts_per_tok, 1], sorted by expert; with apply_router_weight_on_input
  TensorView x;       // [rows, hidden]: input of one expert
  TensorView y;       // [rows * terms, hidden]: outputs sorted by expert, then those of the shared expert
  std::span<int32_t> ids;        // [rows * num_experts_per_tok]
  std::span<int32_t> rows;       // [rows * num_experts_per_tok], sorted by expert
  std::span<int32_t> positions;  // [rows * terms], rows of y
  std::span<int32_t> offsets;    // [num_experts + 1]: offset of each expert in `rows`
};

MoeScratch make_scratch(const Moe& moe, int64_t hidden_size, ScratchLayout& layout);

// out = moe(x) (+ residual, which may be out). out may be x. router_x: input of the router; empty = x. Each
// expert's weights are read once, regardless of the number of rows. up, act: MLP scratch [rows, ...] for the
// widest expert. tokens: token ids of the rows, read with hash routing only.
void apply(const OpRunner& run, const Moe& moe, const TensorView& out, const TensorView& x,
           const TensorView& residual, const MoeScratch& scratch, const TensorView& up, const TensorView& act,
           std::span<const int32_t> tokens = {}, const TensorView& router_x = {});

void visit(const MoeSpec& spec, const InputSpec& x, ParamVisitor& visitor, Moe& moe);

}  // namespace quire
