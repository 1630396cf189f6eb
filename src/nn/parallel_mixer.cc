#include <algorithm>

#include "nn/mixer.h"
#include "nn/parallel_mixer_spec.h"

namespace quire {
namespace {

class ParallelMixer final : public Mixer {
 public:
  explicit ParallelMixer(const ParallelMixerSpec& spec)
      : attention_(make_mixer(spec.attention)),
        mamba_(make_mixer(spec.mamba)),
        attention_multiplier_(spec.attention_multiplier),
        mamba_multiplier_(spec.mamba_multiplier) {}

  void visit(const InputSpec& x, ParamVisitor& visitor) override {
    attention_->visit(x, visitor);
    mamba_->visit(x, visitor);
  }

  void forward(const OpRunner& run, const MixerArgs& args) const override {
    const auto multiply = [&](const TensorView& view, float factor) {
      if (factor != 1.0F) run(ops::ScaleSoftcap{.x = view, .scale = factor});
    };
    mamba_->forward(run, args);
    multiply(args.out, mamba_multiplier_);
    MixerArgs in_place = args;
    in_place.out = args.x;
    attention_->forward(run, in_place);
    multiply(args.x, attention_multiplier_);
    run(ops::Add{.x = args.out, .y = args.x});
  }

  void count_scratch(ScratchLayout& layout) const override {
    ScratchLayout of_mamba = layout.rest(layout.rows());
    ScratchLayout of_attention = layout.rest(layout.rows());
    mamba_->count_scratch(of_mamba);
    attention_->count_scratch(of_attention);
    layout.advance(std::max(of_mamba.size(), of_attention.size()));
  }

 private:
  std::unique_ptr<Mixer> attention_;
  std::unique_ptr<Mixer> mamba_;
  float attention_multiplier_;
  float mamba_multiplier_;
};

}  // namespace

MixerTraits mixer_traits(const ParallelMixerSpec& spec) {
  MixerTraits traits = mixer_traits(spec.attention);
  traits.overwrites_input = true;
  return traits;
}

std::unique_ptr<Mixer> make_mixer(const ParallelMixerSpec& spec) {
  return std::make_unique<ParallelMixer>(spec);
}

}  // namespace quire
