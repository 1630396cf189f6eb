// Gated delta nets and Kimi delta attention: parameter names, and what differs between models. Plain data.
#pragma once

#include <cstdint>

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

// Gated delta nets.
struct DeltaNetSpec {
  int32_t key_heads = 0;
  int32_t value_heads = 0;  // a multiple of key_heads
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  int32_t conv_kernel = 4;
  // Key head of value head h: h % key_heads if set, otherwise h / (value_heads / key_heads).
  bool in_turn = false;
  float beta_scale = 1.0F;  // multiplies beta (2 with linear_allow_neg_eigval)
  float norm_eps = 1e-6F;
  Activation activation = Activation::kSilu;  // after the convolution

  int64_t keys() const { return int64_t{key_heads} * key_dim; }
  int64_t values() const { return int64_t{value_heads} * value_dim; }
  int64_t channels() const { return 2 * keys() + values(); }
  // q, k, v, output gate z, beta, decay a.
  int64_t projected() const { return channels() + values() + 2 * int64_t{value_heads}; }
  RecurrentSizes recurrent() const {
    return {channels(), conv_kernel, value_heads, int64_t{key_dim} * value_dim, projected(), values()};
  }
};
std::unique_ptr<Mixer> make_mixer(const DeltaNetSpec& spec);

// Kimi delta attention: one decay per key dimension instead of one per head.
struct KimiDeltaSpec {
  int32_t heads = 0;
  int32_t head_dim = 0;  // size of a query, key and value head
  int32_t conv_kernel = 4;
  int32_t rank = 0;  // outputs of g_a_proj and of f_a_proj; 0 = g and f are projected from the hidden states
  float lower_bound = 0.0F;                   // kda_lower_bound
  Activation activation = Activation::kSilu;  // after the convolution
  float norm_eps = 1e-6F;

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
std::unique_ptr<Mixer> make_mixer(const KimiDeltaSpec& spec);

}  // namespace quire
