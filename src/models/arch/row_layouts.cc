#include "models/arch/row_layouts.h"

#include "models/model_spec.h"

namespace quire {

RowLayout qkv_by_kv_head(const LayerSpec& layer, int64_t /*rows*/) {
  const AttentionSpec& spec = *attention_of(layer);
  const int64_t dim = spec.head_dim;
  return {spec.num_kv_heads, {spec.num_heads / spec.num_kv_heads * dim, dim, dim}, {0, 1, 2}};
}

RowLayout qvk_by_fourth(const LayerSpec& layer, int64_t /*rows*/) {
  const AttentionSpec& spec = *attention_of(layer);
  constexpr int64_t kParts = 4;
  const int64_t part = spec.num_heads / kParts * spec.head_dim;
  return {kParts, {part, part, part}, {0, 2, 1}};
}

RowLayout gate_up_alternating(const LayerSpec& /*layer*/, int64_t rows) {
  return {rows / 2, {1, 1}, {0, 1}};
}

RowLayout up_before_gate(const LayerSpec& /*layer*/, int64_t rows) {
  return {1, {rows / 2, rows / 2}, {1, 0}};
}

RowLayout rope_after_latent(const LayerSpec& layer, int64_t rows) {
  const int64_t latent = std::get<MlaSpec>(layer.mixer).kv_lora_rank;
  return {1, {latent, rows - latent}, {1, 0}};
}

RowLayout q_gate_by_head(const LayerSpec& layer, int64_t /*rows*/) {
  const AttentionSpec& spec = *attention_of(layer);
  return {spec.num_heads, {spec.head_dim, spec.head_dim}, {0, 1}};
}

RowLayout qkv_by_head(const LayerSpec& layer, int64_t /*rows*/) {
  const LightningSpec& sizes = std::get<LightningSpec>(layer.mixer);
  return {sizes.heads, {sizes.head_dim, sizes.head_dim, sizes.head_dim}, {0, 1, 2}};
}

RowLayout qkvz_by_key_head(const LayerSpec& layer, int64_t /*rows*/) {
  const DeltaNetSpec& sizes = std::get<DeltaNetSpec>(layer.mixer);
  const int64_t values = sizes.values() / sizes.key_heads;
  return {sizes.key_heads, {sizes.key_dim, sizes.key_dim, values, values}, {0, 1, 2, 3}};
}

RowLayout ba_by_key_head(const LayerSpec& layer, int64_t /*rows*/) {
  const DeltaNetSpec& sizes = std::get<DeltaNetSpec>(layer.mixer);
  const int64_t each = sizes.value_heads / sizes.key_heads;
  return {sizes.key_heads, {each, each}, {0, 1}};
}

}  // namespace quire
