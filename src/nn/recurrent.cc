#include "nn/recurrent.h"

#include <cmath>
#include <utility>

#include "nn/scratch.h"

namespace quire {

RecurrentScratch make_scratch(const RecurrentSizes& sizes, ScratchLayout& layout) {
  return {layout.matrix(sizes.projected), layout.matrix(sizes.result), layout.matrix(sizes.decay_columns())};
}

void apply(const OpRunner& run, const CausalConv& conv, const TensorView& x, const ForwardBatch& batch,
           const LayerState& state) {
  const TensorView weight = make_view(const_cast<std::byte*>(conv.weight.data()), DType::kF32,
                                      Shape{conv.conv_kernel, conv.channels});
  run(ops::CausalConv{.x = x,
                      .weight = weight,
                      .bias = vector_view(conv.bias, conv.channels),
                      .activation = conv.activation,
                      .batch = batch.states,
                      .state = state.inputs});
}

void visit_conv(ParamVisitor& visitor, std::vector<ParamSpec> fused, const RecurrentSizes& sizes,
                Activation activation, CausalConv& conv) {
  conv.conv_kernel = sizes.conv_kernel;
  conv.channels = sizes.channels;
  conv.activation = activation;
  const int64_t channels = conv.channels;
  const int64_t kernel = conv.conv_kernel;
  VectorSpec spec{.fused = std::move(fused)};
  spec.transform = [channels, kernel](Buffer stored) {
    Buffer transposed(stored.size());
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t t = 0; t < kernel; ++t)
        transposed.as<float>()[t * channels + c] = stored.as<float>()[c * kernel + t];
    }
    return transposed;
  };
  visitor.vector(spec, conv.weight, &conv.bias);
}

Buffer negative_exp(Buffer a_log) {
  const auto count = static_cast<int64_t>(a_log.size() / sizeof(float));
  for (int64_t i = 0; i < count; ++i) a_log.as<float>()[i] = -std::exp(a_log.as<float>()[i]);
  return a_log;
}

}  // namespace quire
