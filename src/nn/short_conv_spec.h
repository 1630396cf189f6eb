// Short convolutions (LFM2): what differs between models. Plain data.
#pragma once

#include <cstdint>

#include "nn/param_id.h"
#include "nn/recurrent_spec.h"

namespace quire {

struct ShortConvSpec {
  int64_t channels = 0;
  int32_t conv_kernel = 3;
  bool bias = false;  // the projections and the convolution have biases

  RecurrentSizes recurrent() const { return {channels, conv_kernel, 0, 0, 3 * channels, channels}; }
};
std::unique_ptr<Mixer> make_mixer(const ShortConvSpec& spec);

}  // namespace quire
