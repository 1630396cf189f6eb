// A gated short convolution (LFM2). Its only state is the last inputs of the convolution.
#include "nn/short_conv_spec.h"

#include "nn/recurrent.h"

namespace quire {
namespace {

// out = W_out(C * conv(B * x)) (+ residual). in_proj [3 channels, hidden]: B (gate of the input), C (gate of
// the output), x.
struct ShortConv final : RecurrentMixer<ShortConvSpec> {
  using RecurrentMixer::RecurrentMixer;

  void forward(const OpRunner& run, const MixerArgs& args) const override {
    const RecurrentScratch at{spec.recurrent(), args.layout()};
    apply(run, in_proj, at.projected, args.x);
    ColumnParts parts(at.projected);
    const TensorView B = parts.next(spec.channels);
    const TensorView C = parts.next(spec.channels);
    const TensorView inputs = parts.next(spec.channels);
    run(ops::Gate{.out = inputs, .x = inputs, .gate = B, .activation = Activation::kNone});
    apply(run, conv, inputs, args.batch, args.state);
    run(ops::Gate{.out = at.result, .x = inputs, .gate = C, .activation = Activation::kNone});
    apply(run, out_proj, args.out, at.result, args.residual);
  }

  void visit(const InputSpec& x, ParamVisitor& visitor) override {
    visit_matrix(visitor, "state in", with_bias(in_proj_spec(x, 3 * spec.channels), spec.bias), in_proj);
    visit_conv(visitor, spec.recurrent(), spec.bias, Activation::kNone, conv);
    visit_out_proj(visitor, x, spec.channels, 1, spec.bias, out_proj);
  }
};

}  // namespace

std::unique_ptr<Mixer> make_mixer(const ShortConvSpec& spec) {
  return std::make_unique<ShortConv>(spec);
}

}  // namespace quire
