// Hyper-connections (DeepSeek-V4): parameter names. Plain data.
#pragma once

#include <cstdint>

#include "nn/param_id.h"
#include "ops/op_table.h"

namespace quire {

namespace hyper_connection {
inline constexpr ParamId kAttentionFn{"hyper_connection.hc_attn_fn"};  // scores
inline constexpr ParamId kAttentionBase{"hyper_connection.hc_attn_base"};
inline constexpr ParamId kAttentionScale{"hyper_connection.hc_attn_scale"};
inline constexpr ParamId kMlpFn{"hyper_connection.hc_ffn_fn"};
inline constexpr ParamId kMlpBase{"hyper_connection.hc_ffn_base"};
inline constexpr ParamId kMlpScale{"hyper_connection.hc_ffn_scale"};
inline constexpr ParamId kHeadFn{"hyper_connection.hc_head_fn"};
inline constexpr ParamId kHeadBase{"hyper_connection.hc_head_base"};
inline constexpr ParamId kHeadScale{"hyper_connection.hc_head_scale"};
}  // namespace hyper_connection

// Hyper-connections (nn/streams.h).
struct StreamSpec {
  int32_t streams = 0;
  int64_t hidden = 0;
  StreamParams params;

  int64_t scores() const { return int64_t{streams} * (streams + 2); }
};

}  // namespace quire
