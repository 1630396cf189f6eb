// Mamba (arXiv 2312.00752): a convolution over the last tokens, then for each channel a few numbers that
// fade, each at a speed of its own, and take the token up; how much, and what is read of them, the token
// says.
#pragma once

#include <cstdint>
#include <optional>

#include "nn/recurrent.h"

namespace quire {

struct Mamba1Sizes {
  int64_t inner = 0;  // channels
  int32_t state = 0;  // numbers of each
  int32_t taps = 4;
  int32_t rank = 0;  // of what the steps are made of

  int64_t selected() const { return rank + 2 * int64_t{state}; }
  RecurrentSizes recurrent() const {
    const auto panels = static_cast<int32_t>((inner + kScanPanel - 1) / kScanPanel);
    // Channels, gates, what is selected, steps.
    return {inner, taps, panels, state * kScanPanel, 3 * inner + selected(), inner};
  }
};

// Weights are read-only after load.
struct Mamba1 {
  Mamba1Sizes sizes;
  Linear in;  // [2 inner, hidden]: channels, gates
  CausalConv conv;
  Linear select;  // [rank + 2 state, inner]: what makes steps, what writes, what reads
  std::optional<Norm> step_norm;
  std::optional<Norm> write_norm;
  std::optional<Norm> read_norm;
  Linear step;  // [inner, rank]
  Buffer rate;  // float32 [state, inner], negative
  Buffer skip;  // float32 [inner]
  Linear out;   // [hidden, inner]
};

// out = mamba(x) (+ residual, which may be out). out may be x.
void apply(const OpTable& ops, const OpContext& ctx, const Mamba1& mamba, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const LayerState& state, const RecurrentScratch& scratch);

}  // namespace quire
