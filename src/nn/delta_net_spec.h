// Gated delta nets and Kimi delta attention: parameter names. Plain data.
#pragma once

#include <cstdint>
#include <optional>

#include "nn/param_id.h"
#include "nn/recurrent_spec.h"
#include "ops/op_table.h"

namespace quire {

namespace delta_net {
inline constexpr ParamId kQProj{"delta_net.q_proj"};
inline constexpr ParamId kKProj{"delta_net.k_proj"};
inline constexpr ParamId kVProj{"delta_net.v_proj"};
inline constexpr ParamId kBProj{"delta_net.b_proj"};  // beta
inline constexpr ParamId kAProj{"delta_net.a_proj"};  // decay; Kimi Linear: f_b_proj
inline constexpr ParamId kGAProj{"delta_net.g_a_proj"};
inline constexpr ParamId kFAProj{"delta_net.f_a_proj"};
inline constexpr ParamId kQConv1d{"delta_net.q_conv1d"};
inline constexpr ParamId kKConv1d{"delta_net.k_conv1d"};
inline constexpr ParamId kVConv1d{"delta_net.v_conv1d"};
}  // namespace delta_net

struct DeltaNetSizes {
  int32_t key_heads = 0;
  int32_t value_heads = 0;  // a multiple of key_heads
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  int32_t conv_kernel = 4;
  // Key head of value head h: h % key_heads if set, otherwise h / (value_heads / key_heads).
  bool in_turn = false;

  int64_t keys() const { return int64_t{key_heads} * key_dim; }
  int64_t values() const { return int64_t{value_heads} * value_dim; }
  int64_t channels() const { return 2 * keys() + values(); }
  // q, k, v, output gate z, beta, decay a.
  int64_t projected() const { return channels() + values() + 2 * int64_t{value_heads}; }
  RecurrentSizes recurrent() const {
    return {channels(), conv_kernel, value_heads, int64_t{key_dim} * value_dim, projected(), values()};
  }
};

// Gated delta nets.
struct DeltaNetSpec {
  DeltaNetSizes sizes;
  float beta_scale = 1.0F;                    // multiplies beta (2 with linear_allow_neg_eigval)
  std::optional<float> norm_eps;              // nullopt = the model's
  Activation activation = Activation::kSilu;  // after the convolution
};

}  // namespace quire
