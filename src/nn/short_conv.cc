#include "nn/short_conv.h"

namespace quire {

void apply(const OpRunner& run, const ShortConv& conv, const MixerArgs& args) {
  const int64_t d = conv.sizes.channels;
  const RecurrentScratch at = make_scratch(conv.sizes.recurrent(), args);
  apply(run, conv.in_proj, at.projected, args.x);
  const TensorView b = column_slice(at.projected, 0, d);
  const TensorView c = column_slice(at.projected, d, 2 * d);
  const TensorView inputs = column_slice(at.projected, 2 * d, 3 * d);
  run(ops::Gate{.out = inputs, .x = inputs, .gate = b, .activation = Activation::kNone});
  apply(run, conv.conv, inputs, args.batch, args.state);
  run(ops::Gate{.out = at.result, .x = inputs, .gate = c, .activation = Activation::kNone});
  apply(run, conv.out_proj, args.out, at.result, args.residual);
}

void visit(const ShortConvSpec& spec, const InputSpec& x, ParamVisitor& visitor, ShortConv& conv) {
  const int64_t channels = spec.sizes.channels;
  conv.sizes = spec.sizes;
  const ParamSpec in = after_norm(column_parallel(recurrent::kInProj, 3 * channels, x.size), x.norm);
  visit_matrix(visitor, "state in", with_bias(in, spec.bias), conv.in_proj);
  const ParamSpec kernel = column_parallel(recurrent::kConv1d, channels, spec.sizes.conv_kernel);
  visit_conv(visitor, {with_bias(kernel, spec.bias)}, spec.sizes.recurrent(), Activation::kNone, conv.conv);
  const ParamSpec out = row_parallel(recurrent::kOutProj, x.size, channels);
  visit_matrix(visitor, "state out", with_bias(out, spec.bias), conv.out_proj);
}

}  // namespace quire
