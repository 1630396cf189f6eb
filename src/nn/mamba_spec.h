// Mamba 2: what differs between models. Plain data.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "nn/param_id.h"
#include "nn/recurrent_spec.h"
#include "ops/op_table.h"

namespace quire {

struct MambaSpec {
  int32_t heads = 0;
  int32_t head_dim = 0;
  int32_t groups = 1;  // groups of heads that share B and C
  int32_t state = 0;   // d_state
  int32_t conv_kernel = 4;
  bool in_bias = false;
  bool out_bias = false;
  bool conv_bias = true;
  Activation activation = Activation::kSilu;  // after the convolution
  float min_dt = 0.0F;
  float max_dt = std::numeric_limits<float>::infinity();
  bool norm = true;
  bool norm_before_gate = false;
  float norm_eps = 1e-6F;
  std::vector<float> multipliers;  // factors on z, x, B, C and dt; or empty

  int64_t inner() const { return int64_t{heads} * head_dim; }
  int64_t channels() const { return inner() + 2 * int64_t{groups} * state; }
  // z, x, B, C, dt.
  int64_t projected() const { return inner() + channels() + heads; }
  RecurrentSizes recurrent() const {
    return {channels(), conv_kernel, heads, int64_t{state} * head_dim, projected(), inner()};
  }
};
std::unique_ptr<Mixer> make_mixer(const MambaSpec& spec);

}  // namespace quire
