// Mixture of experts: each row goes through the few expert MLPs that the router selects for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nn/mlp.h"
#include "nn/moe_spec.h"
#include "nn/params.h"
#include "nn/scratch.h"

namespace quire {

// y = sum over a row's experts of weight * expert(x) (+ shared(x), multiplied by the sigmoid of its gate if
// it has one). Weights are read-only after load.
struct Moe {
  MoeSpec spec;
  Linear router;                   // [num_experts, hidden]
  Buffer e_score_correction_bias;  // float32 [num_experts] or empty
  Buffer tid2eid;  // int32 [vocab_size, num_experts_per_tok] or empty: each token's experts (hash routing)
  // All have the same shape. Zero-computation experts follow them in the router's numbering.
  std::vector<Mlp> experts;
  LinearGroup up;                     // Mlp::up of the experts
  LinearGroup down;                   // Mlp::down of the experts
  std::optional<Mlp> shared;          // applied to every row
  std::optional<Linear> shared_gate;  // [1, hidden]
  Buffer output_bias;                 // float32 [hidden] or empty: added to the sum
  Buffer expert_scale;  // float32 [num_experts] or empty: factor on the router weights of an expert

  // Columns of an expert's gates and ups, or 0 if experts have no gates. They are written to memory unless
  // the activation is part of the product, which it is not for rows whose adapter changes the product.
  int64_t gate_up_size() const { return spec.gated ? 2 * spec.intermediate_size : 0; }
};

// Sets `up` and `down` when the experts have their weights. One op computes all of them, so the activation
// stays part of the products only if it is part of all.
void group_experts(Moe& moe);

// A term is a pair of a row and one of its experts. Terms are sorted by expert.
struct MoeScratch {
  const Moe& moe;
  int64_t hidden_size;
  ScratchLayout& layout;
  const MoeSpec& spec = moe.spec;
  int64_t rows_of_experts = layout.rows() * spec.router.num_experts_per_tok;  // terms of routed experts
  int64_t terms = layout.rows() * spec.terms_per_row();

  TensorView logits = layout.matrix(spec.routed());
  TensorView weights = layout.matrix(spec.terms_per_row());  // the shared expert's last
  TensorView shared_logits = layout.matrix(spec.shared_intermediate_size > 0 ? 1 : 0);
  TensorView input_weights = layout.matrix(rows_of_experts, spec.apply_router_weight_on_input ? 1 : 0);
  TensorView x = layout.matrix(rows_of_experts, spec.apply_router_weight_on_input ? hidden_size : 0);
  // The activations of an expert's gates and ups, or of its ups.
  TensorView inner = layout.matrix(rows_of_experts, spec.intermediate_size);
  // Outputs of the routed experts, then those of the shared expert. Before, gates and ups are here.
  TensorView y_memory = layout.matrix(terms, std::max(hidden_size, moe.gate_up_size()));
  TensorView y = leading_columns(y_memory, hidden_size);
  TensorView gate_up = leading_columns(y_memory, moe.gate_up_size());
  std::span<int32_t> ids = layout.integers<int32_t>(rows_of_experts);
  std::span<int32_t> rows = layout.integers<int32_t>(rows_of_experts);       // the row of each term
  std::span<int32_t> positions = layout.integers<int32_t>(terms);            // rows of y
  std::span<int32_t> offsets = layout.integers<int32_t>(spec.routed() + 1);  // the first term of each expert
};

// out = moe(x) (+ residual, which may be out). out may be x. router_x: input of the router; empty = x. Each
// expert's weights are read once, regardless of the number of rows. The scratch is laid out for the rows of
// x; up, act: MLP scratch [rows, ...] for the shared expert. tokens: token ids of the rows, read with hash
// routing only.
void apply(const OpRunner& run, const Moe& moe, const TensorView& out, const TensorView& x,
           const TensorView& residual, const MoeScratch& scratch, const TensorView& up, const TensorView& act,
           std::span<const int32_t> tokens = {}, const TensorView& router_x = {});

void visit(const MoeSpec& spec, const InputSpec& x, ParamVisitor& visitor, Moe& moe);

}  // namespace quire
