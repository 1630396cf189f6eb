// The feed-forward parts of all layers: MLPs, experts, and both together.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "models/model_spec.h"
#include "nn/params.h"
#include "nn/scratch.h"

namespace quire {

// Number of rows that go through a feed-forward layer at once, which limits its scratch memory. With more
// rows the scratch no longer fits the caches.
inline constexpr int64_t kMlpRows = 512;

// The arguments for at most kMlpRows rows of a step.
struct FeedForwardArgs {
  TensorView out;                   // [rows, hidden_size]; may be x
  TensorView x;                     // [rows, hidden_size], normalized
  TensorView residual;              // [rows, hidden_size], added to the output; empty = nothing is added
  TensorView hidden;                // [rows, hidden_size], before the norm
  TensorView shortcut;              // [rows, hidden_size], output of the experts of a shortcut
  std::span<const int32_t> tokens;  // [rows], for hash routing
  ScratchMemory work;
};
// The weights of one layer's feed-forward part. Read-only after load.
class FeedForward {
 public:
  virtual ~FeedForward() = default;
  // Names the parameters. norm: settings of the norms of parallel experts.
  virtual void visit(const NormSpec& norm, const InputSpec& x, ParamVisitor& visitor) = 0;
  // out = feed_forward(x) (+ residual).
  virtual void forward(const OpRunner& run, const FeedForwardArgs& args) const = 0;
  // Lays out the scratch memory of forward().
  virtual void count_scratch(int64_t hidden_size, ScratchLayout& layout) const = 0;
};
// Null if the layer has none.
std::unique_ptr<FeedForward> make_feed_forward(const FeedForwardSpec& spec);

}  // namespace quire
