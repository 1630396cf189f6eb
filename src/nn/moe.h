// Mixture of experts: an MLP of which each row uses a few of many parts, as its router says. Weights are
// read-only after load.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "nn/layers.h"

namespace quire {

// y = sum over a row's experts of weight * expert(x) (+ shared(x), times the sigmoid of its gate where it has
// one).
struct Moe {
  Linear router;      // [num_experts, hidden]
  Buffer correction;  // float32 [num_experts] or empty; params.correction points to it
  Buffer by_token;    // int32 [vocab_size, num_chosen] or empty: each token's experts (params.given)
  RouterParams params;
  // All of one shape. Those that the router knows behind them give what they are given.
  std::vector<Mlp> experts;
  std::optional<Mlp> shared;          // of every row
  std::optional<Linear> shared_gate;  // [1, hidden]
  Buffer expert_scale;                // float32 [num_experts] or empty: multiplies an expert's weights
  bool weigh_input = false;           // weights multiply what an expert reads, not what it gives (Llama 4)

  // What the sum of a row has terms of.
  int64_t ranks() const { return params.num_chosen + (shared ? 1 : 0); }
};

// What scratch must have room for.
struct MoeSizes {
  int64_t num_experts = 0;
  int64_t num_chosen = 0;
  bool shared = false;
  bool weigh_input = false;
  int64_t hidden = 0;

  int64_t ranks() const { return num_chosen + (shared ? 1 : 0); }
};

// Views of one piece of memory, for steps of at most so many rows.
struct MoeScratch {
  TensorView logits;          // [rows, num_experts]
  TensorView weights;         // [rows, ranks], the shared expert's last
  TensorView shared_logits;   // [rows, 1]
  TensorView input_weights;   // [rows * num_chosen, 1] by expert; with weigh_input
  TensorView x;               // [rows, hidden], what one expert reads
  TensorView y;               // [rows * ranks, hidden], what experts give: by expert, then the shared one's
  std::span<int32_t> ids;     // [rows * num_chosen]
  std::span<int32_t> rows;    // [rows * num_chosen], by expert
  std::span<int32_t> places;  // [rows * ranks], rows of y
  std::span<int32_t> begins;  // [num_experts + 1], each expert's first in `rows`
};

// Floats that the scratch takes.
int64_t moe_scratch_size(const MoeSizes& sizes, int64_t rows);
MoeScratch make_moe_scratch(const MoeSizes& sizes, int64_t rows, float* memory);

// out = moe(x) (+ residual, which may be out). out may be x. router_x: what the router reads in its place.
// Each expert's weights are read once, whatever the rows. up, act: an MLP's scratch [rows, ...] as wide as
// the widest expert's. tokens: of the rows; read where they have their own experts.
void apply(const OpTable& ops, const OpContext& ctx, const Moe& moe, const TensorView& out,
           const TensorView& x, const TensorView& residual, const MoeScratch& scratch, const TensorView& up,
           const TensorView& act, std::span<const int32_t> tokens = {}, const TensorView& router_x = {});

}  // namespace quire
