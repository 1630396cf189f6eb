#include "nn/recurrent.h"

#include "nn/scratch.h"

namespace quire {
namespace {

// Lays the scratch out from `memory` on; null: only counts. Returns its end.
int64_t place(const RecurrentSizes& sizes, int64_t rows, float* memory, RecurrentScratch& out) {
  ScratchLayout at(rows, memory);
  out.projected = at.matrix(sizes.projected);
  out.result = at.matrix(sizes.result);
  out.decay = at.matrix(sizes.decay_columns());
  return at.size();
}

}  // namespace

int64_t recurrent_scratch_size(const RecurrentSizes& widest, int64_t rows) {
  RecurrentScratch unused;
  return place(widest, rows, nullptr, unused);
}

RecurrentScratch make_recurrent_scratch(const RecurrentSizes& widest, int64_t rows, float* memory) {
  RecurrentScratch out;
  place(widest, rows, memory, out);
  return out;
}

RecurrentScratch part_of(const RecurrentScratch& scratch, const RecurrentSizes& sizes, int64_t rows) {
  return {part(scratch.projected, rows, sizes.projected), part(scratch.result, rows, sizes.result),
          part(scratch.decay, rows, sizes.decay_columns())};
}

void apply(const OpTable& ops, const OpContext& ctx, const CausalConv& conv, const TensorView& x,
           const ForwardBatch& batch, const LayerState& state) {
  const TensorView weight =
      make_view(const_cast<std::byte*>(conv.weight.data()), DType::kF32, Shape{conv.taps, conv.channels});
  ops.causal_conv(ctx, x, weight, vector_view(conv.bias, conv.channels), conv.activation, batch.states,
                  state.inputs);
}

}  // namespace quire
