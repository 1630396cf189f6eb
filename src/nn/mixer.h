// The interface of the parts of a layer that mix tokens: attention and recurrent layers. For each of them
// there are two functions:
//   void apply(const OpRunner& run, const Weights& weights, const MixerArgs& args);
//   void count_scratch(const Weights& weights, ScratchLayout& layout);  // what apply needs in
//   MixerArgs::work
#pragma once

#include "nn/forward_batch.h"
#include "nn/layers.h"
#include "nn/scratch.h"

namespace quire {

// The arguments of a mixer in one step.
struct MixerArgs {
  TensorView out;            // [rows, hidden_size]; may be x
  TensorView x;              // [rows, hidden_size]
  TensorView residual = {};  // [rows, hidden_size], added to the output; may be out; empty = nothing is added
  const Rope* rope = nullptr;  // null = no rotary embedding
  const ForwardBatch& batch;
  const KvCacheView& kv;
  const LayerState& state;
  // Keys that sparse attention selected, and compressed keys that an indexer picked; kept from layer to
  // layer.
  SparseMask chosen = {};
  SparseMask picked = {};
  float* work = nullptr;  // scratch memory

  // Scratch memory for this step, from the beginning of `work`.
  ScratchLayout layout() const { return {x.rows(), work}; }
};

}  // namespace quire
