#include "nn/recurrent.h"

namespace quire {
namespace {

// Lays the scratch out from `memory` on; null: only counts. Returns its end.
int64_t place(const RecurrentSizes& sizes, int64_t rows, float* memory, RecurrentScratch& out) {
  constexpr int64_t kLine = 16;  // floats in a cache line
  int64_t end = 0;
  const auto matrix = [&](int64_t columns) {
    const int64_t begin = end;
    end += (rows * columns + kLine - 1) / kLine * kLine;
    if (memory == nullptr || columns == 0) return TensorView{};
    return make_view(memory + begin, DType::kF32, Shape{rows, columns});
  };
  out.projected = matrix(sizes.projected);
  out.result = matrix(sizes.result);
  out.decay = matrix(sizes.heads);
  return end;
}

TensorView part(const TensorView& view, int64_t rows, int64_t columns) {
  if (columns == 0) return {};
  return column_slice(row_slice(view, 0, rows), 0, columns);
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
          part(scratch.decay, rows, sizes.heads)};
}

void apply(const OpTable& ops, const OpContext& ctx, const CausalConv& conv, const TensorView& x,
           const ForwardBatch& batch, const LayerState& state) {
  const TensorView weight =
      make_view(const_cast<std::byte*>(conv.weight.data()), DType::kF32, Shape{conv.taps, conv.channels});
  ops.causal_conv(ctx, x, weight, vector_view(conv.bias, conv.channels), conv.activation, batch.states,
                  state.inputs);
}

}  // namespace quire
