// AltUp and Laurel (Gemma 3n): parameter names. Plain data.
#pragma once

#include <cstdint>

#include "nn/param_id.h"

namespace quire {

namespace alt_up {
inline constexpr ParamId kProjection{"alt_up.altup_projections"};  // one per stream after the first
inline constexpr ParamId kUnembedProjection{"alt_up.altup_unembed_projections"};  // likewise
inline constexpr ParamId kRouterNorm{"alt_up.altup.router_norm"};
inline constexpr ParamId kModalityRouter{"alt_up.altup.modality_router"};
inline constexpr ParamId kPredictionCoefs{"alt_up.altup.prediction_coefs"};
inline constexpr ParamId kCorrectionCoefs{"alt_up.altup.correction_coefs"};
inline constexpr ParamId kCorrectOutputScale{"alt_up.altup.correct_output_scale"};
inline constexpr ParamId kLaurelLeft{"alt_up.laurel.linear_left"};
inline constexpr ParamId kLaurelRight{"alt_up.laurel.linear_right"};
inline constexpr ParamId kLaurelNorm{"alt_up.laurel.post_laurel_norm"};
}  // namespace alt_up

// AltUp (nn/alt_up.h).
struct AltUpSpec {
  int32_t streams = 0;
  int64_t hidden = 0;
  int64_t rank = 0;    // rank of Laurel
  bool scaled = true;  // the layer has correct_output_scale
};

}  // namespace quire
