// Lightning attention (MiniMax): what differs between models. Plain data.
#pragma once

#include <cstdint>

#include "nn/norm_spec.h"
#include "nn/param_id.h"
#include "nn/recurrent_spec.h"
#include "ops/op_table.h"

namespace quire {

struct LightningSpec {
  int32_t heads = 0;
  int32_t head_dim = 0;
  Activation activation = Activation::kSilu;
  NormSpec norm;  // norm of the output

  int64_t inner() const { return int64_t{heads} * head_dim; }
  int64_t projected() const { return 4 * inner(); }  // q, k, v, output gate
  RecurrentSizes recurrent() const {
    return {0, 1, heads, int64_t{head_dim} * head_dim, projected(), inner()};
  }
};
std::unique_ptr<Mixer> make_mixer(const LightningSpec& spec);

}  // namespace quire
