// Sets fields of all layers of a model at once. The parse function of an architecture begins with equal
// layers (parse_llama_family, read_sizes) and changes them with these functions, or one by one.
#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#include "models/model_spec.h"

namespace quire {

// The layer's part of this type, for example AttentionSpec, MlaSpec, MlpSpec or MoeSpec; null = none.
template <class Part>
Part* part_of(LayerSpec& layer) {
  FeedForwardSpec& own = layer.feed_forward;
  if constexpr (std::is_same_v<Part, AttentionSpec>) {
    return attention_of(layer);
  } else if constexpr (std::is_same_v<Part, MlpSpec>) {
    return own.mlp ? &*own.mlp : nullptr;
  } else if constexpr (std::is_same_v<Part, MoeSpec>) {
    return own.moe ? &*own.moe : nullptr;
  } else {
    return std::get_if<Part>(&layer.mixer);
  }
}

// Calls f(part) for all layers that have such a part.
template <class Part, class F>
void for_parts_of(ModelSpec& spec, F&& f) {
  for (LayerSpec& layer : spec.layers) {
    if (Part* part = part_of<Part>(layer)) f(*part);
  }
}

// Sets a field of such a part in all layers that have one: set_all(spec, &MlpSpec::gated, false).
template <class Part, class Value>
void set_all(ModelSpec& spec, Value Part::*field, const std::type_identity_t<Value>& value) {
  for_parts_of<Part>(spec, [&](Part& part) { part.*field = value; });
}

// The parts of the first layer, as long as it has attention and an MLP.
inline const AttentionSpec& first_attention(const ModelSpec& spec) {
  return *attention_of(spec.layers.front());
}
inline const MlpSpec& first_mlp(const ModelSpec& spec) {
  return *spec.layers.front().feed_forward.mlp;
}

// Appends equal layers without RoPE, with the model's norm before attention and MLP, and a final norm.
void add_layers(ModelSpec& spec, int64_t count, const AttentionSpec& attention, const MlpSpec& mlp);

// Biases of queries, keys, values and output; set_biases: also those of the MLP.
void set_attention_bias(ModelSpec& spec, bool bias);
void set_biases(ModelSpec& spec, bool bias);
void set_activation(ModelSpec& spec, Activation activation);
// q.k is divided by it.
void set_score_divisor(ModelSpec& spec, double divisor);
void set_rope(ModelSpec& spec, int32_t rope);
void set_bidirectional(ModelSpec& spec);
// Output gates of attention: one per head or one per feature. After the sizes of the heads.
void set_gates(ModelSpec& spec, bool per_head);
// The same mixer in all layers, without changing their norms.
void set_mixer(ModelSpec& spec, const MixerSpec& mixer);
void remove_mixer(LayerSpec& layer);
void remove_feed_forward(LayerSpec& layer);

// Changes the model's norm, and all norms of its layers, which have the same settings unless the caller sets
// others afterwards. Norms of query and key heads have a kind and a bias of their own.
void set_norm(ModelSpec& spec, const NormSpec& norm);
void set_norm_offset(ModelSpec& spec, float weight_offset);
void set_qk_norm(ModelSpec& spec, QkNorm over, NormKind kind = NormKind::kRms, bool bias = false);

// Where norms are, in both branches of each layer; kAfterAdd: after the residual add (post-LN).
enum class NormPlace : uint8_t { kBefore, kAfter, kBoth, kAfterAdd };
void place_norms(ModelSpec& spec, NormPlace place);
void place_norms(const NormSpec& norm, LayerSpec& layer, NormPlace place);
// The MLP reads the normalized input of attention.
void remove_mlp_norm(ModelSpec& spec);

// Factors on the outputs of both branches.
void multiply_branches(ModelSpec& spec, float factor);
// Experts instead of the MLP in the layers for which `sparse` is true; without it, in all layers. They take
// over the activation and the bias of the MLP.
void use_experts(ModelSpec& spec, const MoeSpec& moe, const std::vector<bool>& sparse);
void use_experts(ModelSpec& spec, const MoeSpec& moe);
// Experts in addition to the MLP of the layer.
void add_experts(LayerSpec& layer, const MoeSpec& moe, FeedForwardSpec::Experts place);
// Limits of MlpSpec::limit in MLPs, shared experts and experts.
void set_limits(LayerSpec& layer, float mlp, float experts);

}  // namespace quire
