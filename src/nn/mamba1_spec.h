// Mamba 1: parameter names. Plain data.
#pragma once

#include <cstdint>

#include "nn/param_id.h"
#include "nn/recurrent_spec.h"
#include "ops/op_table.h"

namespace quire {

namespace mamba1 {
inline constexpr ParamId kXProj{"mamba1.x_proj"};  // [dt_rank + 2 d_state, d_inner]: dt, B, C
inline constexpr ParamId kDtProj{"mamba1.dt_proj"};
inline constexpr ParamId kDtNorm{"mamba1.dt_layernorm"};
inline constexpr ParamId kBNorm{"mamba1.b_layernorm"};
inline constexpr ParamId kCNorm{"mamba1.c_layernorm"};
}  // namespace mamba1

struct Mamba1Spec {
  int64_t inner = 0;  // d_inner
  int32_t state = 0;  // d_state
  int32_t conv_kernel = 4;
  int32_t rank = 0;   // dt_rank
  bool bias = false;  // in_proj and out_proj have biases
  bool conv_bias = true;
  Activation activation = Activation::kSilu;  // after the convolution
  bool norms = false;                         // RMS norms of dt, B and C (Jamba)
  bool norm_weights = true;
  float norm_eps = 1e-6F;

  int64_t selected() const { return rank + 2 * int64_t{state}; }
  RecurrentSizes recurrent() const {
    const auto panels = static_cast<int32_t>((inner + kScanPanel - 1) / kScanPanel);
    // x, gate z, outputs of x_proj, dt.
    return {inner, conv_kernel, panels, state * kScanPanel, 3 * inner + selected(), inner};
  }
};
std::unique_ptr<Mixer> make_mixer(const Mamba1Spec& spec);

}  // namespace quire
