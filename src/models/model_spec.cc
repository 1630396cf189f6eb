#include "models/model_spec.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace quire {
namespace {

// Returns f(spec) for the attention of the layer, or of its shared block; a value-initialized result if it
// has none.
template <class F>
auto visit_attention(const LayerSpec& layer, F&& f) {
  using Result = decltype(f(AttentionSpec{}));
  if (const AttentionSpec* attention = attention_of(layer)) return f(*attention);
  return std::visit(
      [&](const auto& spec) -> Result {
        if constexpr (requires { kv_shape(spec); }) return f(spec);
        return Result{};
      },
      layer.mixer);
}

}  // namespace

const AttentionSpec* attention_of(const LayerSpec& layer) {
  if (layer.shared_block) return &layer.shared_block->attention;
  return std::visit(
      [](const auto& spec) -> const AttentionSpec* {
        if constexpr (requires { grouped_attention(spec); }) return grouped_attention(spec);
        return nullptr;
      },
      layer.mixer);
}

AttentionSpec* attention_of(LayerSpec& layer) {
  return const_cast<AttentionSpec*>(attention_of(std::as_const(layer)));
}

MixerTraits mixer_traits(const LayerSpec& layer) {
  const auto own = std::visit(
      [](const auto& spec) {
        if constexpr (requires { mixer_traits(spec); }) return mixer_traits(spec);
        return MixerTraits{};
      },
      layer.mixer);
  if (!layer.shared_block) return own;
  MixerTraits traits = mixer_traits(layer.shared_block->attention);
  traits.overwrites_input = own.overwrites_input;
  return traits;
}

KvShape kv_shape(const LayerSpec& layer) {
  return visit_attention(layer, [](const auto& spec) { return kv_shape(spec); });
}

int32_t kv_sharing_layer(const LayerSpec& layer) {
  const AttentionSpec* attention = attention_of(layer);
  return attention == nullptr ? -1 : attention->kv_sharing_layer;
}

bool has_kv_cache(const LayerSpec& layer) {
  return kv_shape(layer).num_kv_heads > 0 && kv_sharing_layer(layer) < 0;
}

int64_t kv_bytes_of(const LayerSpec& layer, DType dtype, int32_t block_size) {
  return visit_attention(layer, [&](const auto& spec) { return kv_bytes(spec, dtype, block_size); });
}

RecurrentSizes recurrent_sizes(const LayerSpec& layer) {
  return std::visit(
      [](const auto& spec) {
        if constexpr (requires { spec.recurrent(); }) return spec.recurrent();
        return RecurrentSizes{};
      },
      layer.mixer);
}

AttentionLimits attention_limits(const ModelSpec& spec, int64_t max_model_len) {
  AttentionLimits limits{.slots = max_model_len};
  for (const LayerSpec& layer : spec.layers) {
    const KvShape shape = kv_shape(layer);
    limits.num_heads = std::max(limits.num_heads, shape.num_heads);
    limits.head_dim = std::max(limits.head_dim, shape.head_dim);
    if (mixer_traits(layer).compresses_keys) limits.slots = compressed_places(max_model_len);
  }
  return limits;
}

// In layers with an indexer, a block has an integer number of compressed keys, and a multiple of the number
// of keys that kernels read at once.
int32_t block_unit(const ModelSpec& spec, int32_t block_size) {
  const int32_t keys = block_size % 16 == 0 ? 16 : 1;
  int32_t unit = 1;
  for (const LayerSpec& layer : spec.layers) {
    const int32_t tokens = mixer_traits(layer).tokens_per_indexed_key;
    if (tokens > 1) unit = std::lcm(unit, keys * tokens);
  }
  return unit;
}

}  // namespace quire
