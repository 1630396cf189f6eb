// Mixture of attention heads (JetMoE): parameter names and what differs between models. Plain data.
#pragma once

#include <cstdint>

#include "nn/kv_shape.h"
#include "nn/param_id.h"
#include "ops/op_table.h"

namespace quire {

namespace moa {
inline constexpr ParamId kRouter{"moa.router"};
inline constexpr ParamId kKProj{"moa.k_proj"};
inline constexpr ParamId kVProj{"moa.v_proj"};
inline constexpr ParamId kExpertQProj{"moa.experts.q_proj"};  // one per expert
inline constexpr ParamId kExpertOProj{"moa.experts.o_proj"};  // likewise
inline constexpr ParamId kBias{"moa.bias"};                   // bias of the output
}  // namespace moa

// One layer.
struct MoaSpec {
  int32_t num_experts = 0;
  int32_t num_kv_heads = 0;  // heads of the keys and values, and query heads of one expert
  int32_t head_dim = 0;
  RouterParams router;
  float scale = 1.0F;  // multiplies q · k

  int64_t kv_size() const { return int64_t{num_kv_heads} * head_dim; }
  int32_t num_heads() const { return num_kv_heads * router.num_experts_per_tok; }
};

KvShape kv_shape(const MoaSpec& spec);
int64_t kv_bytes(const MoaSpec& spec, DType dtype, int32_t block_size);
std::unique_ptr<Mixer> make_mixer(const MoaSpec& spec);

}  // namespace quire
