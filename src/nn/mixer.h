// The interface of the parts of a layer that mix tokens: attention and recurrent layers. A mechanism has a
// spec, which is plain data (NAME_spec.h), and a Mixer with its weights and its equation (NAME.cc).
#pragma once

#include <memory>
#include <vector>

#include "nn/forward_batch.h"
#include "nn/params.h"
#include "nn/rope.h"
#include "nn/scratch.h"
#include "nn/step_tables.h"

namespace quire {

// Tables that all layers of a model share. Read-only after load.
struct SharedTables {
  std::vector<Rope> ropes;  // as ModelSpec::ropes
  Buffer alibi_slopes;      // float32 [num_heads] or empty
  Buffer relative_bias;     // float32 [num_heads, buckets] or empty

  // Null if the index is negative: no rotary embedding.
  const Rope* rope(int32_t index) const { return index < 0 ? nullptr : &ropes[static_cast<size_t>(index)]; }
};

// The arguments of a mixer in one step.
struct MixerArgs {
  TensorView out;            // [rows, hidden_size]; may be x
  TensorView x;              // [rows, hidden_size]
  TensorView residual = {};  // [rows, hidden_size], added to the output; may be out; empty = nothing is added
  const SharedTables& tables;
  const Rope* rope = nullptr;  // null = no rotary embedding
  const ForwardBatch& batch;
  const KvCacheView& kv;
  const LayerState& state;
  std::span<const StepTableView> step_tables = {};  // as Mixer::step_tables()
  // Keys that sparse attention selected, and compressed keys that an indexer picked; kept from layer to
  // layer.
  SparseMask chosen = {};
  SparseMask picked = {};
  ScratchMemory work;

  // Scratch memory for this step, from the beginning of `work`.
  ScratchLayout layout() const { return ScratchLayout(x.rows(), work); }
};

// The weights of one layer's mixer, made by make_mixer(spec). Read-only after load.
class Mixer {
 public:
  virtual ~Mixer() = default;
  // Names the parameters. x: the layer's input.
  virtual void visit(const InputSpec& x, ParamVisitor& visitor) = 0;
  // out = mixer(x) (+ residual). With MixerTraits::overwrites_input, out must not be x.
  virtual void forward(const OpRunner& run, const MixerArgs& args) const = 0;
  // The step tables that forward() reads, with a KV cache of blocks of block_size tokens. Their number does
  // not depend on it.
  virtual std::vector<StepTable> step_tables(int32_t /*block_size*/) const { return {}; }
  // Lays out the scratch memory that forward() needs in MixerArgs::work.
  virtual void count_scratch(ScratchLayout& layout) const = 0;
};

}  // namespace quire
