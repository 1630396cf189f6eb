// Hyper-connections (DeepSeek-V4): parameter names. Plain data.
#pragma once

#include <cstdint>

#include "nn/param_id.h"
#include "ops/op_table.h"

namespace quire {

// The parameters of one mapping.
struct HyperConnectionParams {
  ParamId fn;  // scores
  ParamId base;
  ParamId scale;
  bool head = false;  // after the last layer: there is no post-mapping
};

namespace hyper_connection {
inline constexpr HyperConnectionParams kAttention{
    {"hyper_connection.hc_attn_fn"}, {"hyper_connection.hc_attn_base"}, {"hyper_connection.hc_attn_scale"}};
inline constexpr HyperConnectionParams kMlp{
    {"hyper_connection.hc_ffn_fn"}, {"hyper_connection.hc_ffn_base"}, {"hyper_connection.hc_ffn_scale"}};
inline constexpr HyperConnectionParams kHead{{"hyper_connection.hc_head_fn"},
                                             {"hyper_connection.hc_head_base"},
                                             {"hyper_connection.hc_head_scale"},
                                             true};
}  // namespace hyper_connection

// Hyper-connections (nn/streams.h).
struct StreamSpec {
  int32_t streams = 0;
  int64_t hidden = 0;
  StreamParams params;

  int64_t scores() const { return int64_t{streams} * (streams + 2); }
};

}  // namespace quire
