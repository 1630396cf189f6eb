// Names of parameters that several kinds of recurrent layers have. Plain data.
#pragma once

#include <cstdint>
#include <memory>

#include "nn/param_id.h"

namespace quire {

class Mixer;  // nn/mixer.h

namespace recurrent {
inline constexpr ParamId kInProj{"recurrent.in_proj"};
inline constexpr ParamId kConv1d{"recurrent.conv1d"};  // [channels, 1, kernel]
inline constexpr ParamId kDtBias{"recurrent.dt_bias"};
inline constexpr ParamId kALog{"recurrent.A_log"};
inline constexpr ParamId kD{"recurrent.D"};
inline constexpr ParamId kNorm{"recurrent.norm"};     // before out_proj
inline constexpr ParamId kGProj{"recurrent.g_proj"};  // output gate: in_proj_z, g_b_proj
inline constexpr ParamId kOutProj{"recurrent.out_proj"};
}  // namespace recurrent

// Sizes of one recurrent layer, from its spec's recurrent(). Its state, scratch memory and parameters follow
// from them.
struct RecurrentSizes {
  int64_t channels = 0;     // channels of the convolution
  int32_t conv_kernel = 1;  // kernel size of the convolution
  int32_t heads = 0;        // 0 = there is only a convolution
  int64_t head_state = 0;   // floats of one head's state
  int64_t projected = 0;    // columns of the input projections
  int64_t result = 0;       // columns of the output projection's input
  int64_t decays = 0;       // decay values per token; 0 = one per head

  int64_t inputs() const { return (conv_kernel - 1) * channels; }  // floats of the convolution state
  int64_t decay_columns() const { return decays > 0 ? decays : heads; }
};

}  // namespace quire
