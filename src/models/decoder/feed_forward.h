// The feed-forward parts of all layers: MLPs, experts, and both together.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "models/model_spec.h"
#include "nn/mlp.h"
#include "nn/moe.h"

namespace quire {

// Number of rows that go through a feed-forward layer at once, which limits its scratch memory. With more
// rows the scratch no longer fits the caches.
inline constexpr int64_t kMlpRows = 512;

// The weights of a FeedForwardSpec.
struct FeedForward {
  // Norms of an MLP and experts in parallel, all over [hidden_size].
  struct ParallelNorms {
    Norm router;          // input of the router
    Norm experts;         // input of the experts
    Norm experts_output;  // output of the experts
    Norm mlp_output;      // output of the MLP
  };
  std::optional<Mlp> mlp;
  std::optional<Moe> moe;
  std::optional<ParallelNorms> norms;

  bool empty() const { return !mlp && !moe; }
};

// The arguments for at most kMlpRows rows of a step.
struct FeedForwardArgs {
  TensorView out;                   // [rows, hidden_size]; may be x
  TensorView x;                     // [rows, hidden_size], normalized
  TensorView residual;              // [rows, hidden_size], added to the output; empty = nothing is added
  TensorView hidden;                // [rows, hidden_size], before the norm
  TensorView shortcut;              // [rows, hidden_size], output of the experts of a shortcut
  std::span<const int32_t> tokens;  // [rows], for hash routing
  float* work = nullptr;            // at least feed_forward_scratch_size() floats
};
// out = feed_forward(x) (+ residual).
void apply(const OpRunner& run, const FeedForward& layer, const FeedForwardArgs& args);

// Scratch in floats, for at most `rows` rows at once.
int64_t feed_forward_scratch_size(const FeedForward& layer, int64_t hidden_size, int64_t rows);

// norm: of the norms of parallel experts.
void visit(const FeedForwardSpec& spec, const NormSpec& norm, const InputSpec& x, ParamVisitor& visitor,
           FeedForward& layer);

}  // namespace quire
