// Kimi delta attention: what differs between models. Plain data. Its parameters have the names of a delta
// net's.
#pragma once

#include <cstdint>

#include "nn/param_id.h"
#include "nn/recurrent_spec.h"
#include "ops/op_table.h"

namespace quire {

struct KimiDeltaSizes {
  int32_t heads = 0;
  int32_t head_dim = 0;  // size of a query, key and value head
  int32_t conv_kernel = 4;
  int32_t rank = 0;  // outputs of g_a_proj and of f_a_proj; 0 = g and f are projected from the hidden states

  int64_t inner() const { return int64_t{heads} * head_dim; }
  int64_t channels() const { return 3 * inner(); }
  // Outputs of the fused in_proj: q, k, v, and g and f if there is no rank.
  int64_t wide() const { return (rank > 0 ? 3 : 5) * inner(); }
  // b_proj (beta), g_a_proj and f_a_proj.
  int64_t narrow() const { return heads + 2 * int64_t{rank}; }
  int64_t projected() const { return 5 * inner() + narrow(); }
  RecurrentSizes recurrent() const {
    return {channels(), conv_kernel, heads, int64_t{head_dim} * head_dim, projected(), inner(), inner()};
  }
};

struct KimiDeltaSpec {
  KimiDeltaSizes sizes;
  float lower_bound = 0.0F;                   // kda_lower_bound
  Activation activation = Activation::kSilu;  // after the convolution
  float norm_eps = 1e-6F;
};

}  // namespace quire
