// Attention and Mamba 2 on the same input (Falcon-H1): what differs between models. Plain data.
#pragma once

#include "nn/attention_spec.h"
#include "nn/mamba_spec.h"

namespace quire {

// The output is the sum of both, each multiplied by its factor.
struct ParallelMixerSpec {
  AttentionSpec attention;
  MambaSpec mamba;
  float attention_multiplier = 1.0F;
  float mamba_multiplier = 1.0F;

  RecurrentSizes recurrent() const { return mamba.recurrent(); }
};
MixerTraits mixer_traits(const ParallelMixerSpec& spec);
inline const AttentionSpec* grouped_attention(const ParallelMixerSpec& spec) {
  return &spec.attention;
}
std::unique_ptr<Mixer> make_mixer(const ParallelMixerSpec& spec);

}  // namespace quire
