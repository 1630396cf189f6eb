#include "models/arch/layers.h"

namespace quire {

void add_layers(ModelSpec& spec, int64_t count, const AttentionSpec& attention, const MlpSpec& mlp) {
  LayerSpec layer = {.mixer = attention, .feed_forward = {.mlp = mlp}};
  AttentionSpec& own = *attention_of(layer);
  own.value_dim = own.head_dim;
  own.qk_norm_spec.eps = spec.norm.eps;
  place_norms(spec.norm, layer, NormPlace::kBefore);
  spec.layers.insert(spec.layers.end(), static_cast<size_t>(count), layer);
  spec.final_norm = spec.norm;
}

void set_attention_bias(ModelSpec& spec, bool bias) {
  for_parts_of<AttentionSpec>(spec, [&](AttentionSpec& own) { own.qkv_bias = own.o_bias = bias; });
}

void set_biases(ModelSpec& spec, bool bias) {
  set_attention_bias(spec, bias);
  set_all(spec, &MlpSpec::bias, bias);
}

void set_activation(ModelSpec& spec, Activation activation) {
  set_all(spec, &MlpSpec::activation, activation);
  set_all(spec, &MoeSpec::activation, activation);
}

void set_score_divisor(ModelSpec& spec, double divisor) {
  const auto scale = static_cast<float>(1.0 / divisor);
  for_parts_of<AttentionSpec>(spec, [&](AttentionSpec& own) { own.params.scale = scale; });
  set_all(spec, &MlaSpec::attention_scale, scale);
}

void set_rope(ModelSpec& spec, int32_t rope) {
  for (LayerSpec& layer : spec.layers) layer.rope = rope;
}

void set_bidirectional(ModelSpec& spec) {
  spec.bidirectional = true;
  for_parts_of<AttentionSpec>(spec, [](AttentionSpec& own) { own.params.bidirectional = true; });
}

void set_gates(ModelSpec& spec, bool per_head) {
  for_parts_of<AttentionSpec>(
      spec, [&](AttentionSpec& own) { own.num_gates = per_head ? own.num_heads : own.q_size(); });
}

void set_mixer(ModelSpec& spec, const MixerSpec& mixer) {
  for (LayerSpec& layer : spec.layers) layer.mixer = mixer;
}

void remove_mixer(LayerSpec& layer) {
  layer.mixer = {};
  layer.mixer_branch = {};
}

void remove_feed_forward(LayerSpec& layer) {
  layer.feed_forward = {};
  layer.feed_forward_branch = {};
}

void set_norm(ModelSpec& spec, const NormSpec& norm) {
  const auto replace = [&](std::optional<NormSpec>& own) {
    if (own) own = norm;
  };
  spec.norm = norm;
  replace(spec.final_norm);
  for (LayerSpec& layer : spec.layers) {
    for (BranchSpec* branch : {&layer.mixer_branch, &layer.feed_forward_branch}) {
      replace(branch->pre_norm);
      replace(branch->post_norm);
    }
  }
  for_parts_of<AttentionSpec>(spec, [&](AttentionSpec& own) {
    own.qk_norm_spec.eps = norm.eps;
    own.qk_norm_spec.weight_offset = norm.weight_offset;
  });
  set_all(spec, &MlaSpec::norm, norm);
}

void set_norm_offset(ModelSpec& spec, float weight_offset) {
  NormSpec norm = spec.norm;
  norm.weight_offset = weight_offset;
  set_norm(spec, norm);
}

void set_qk_norm(ModelSpec& spec, QkNorm over, NormKind kind, bool bias) {
  for_parts_of<AttentionSpec>(spec, [&](AttentionSpec& own) {
    own.qk_norm = over;
    own.qk_norm_spec.kind = kind;
    own.qk_norm_spec.bias = bias;
  });
}

void place_norms(const NormSpec& norm, LayerSpec& layer, NormPlace place) {
  const std::optional<NormSpec> some = norm;
  for (BranchSpec* branch : {&layer.mixer_branch, &layer.feed_forward_branch}) {
    branch->pre_norm = place == NormPlace::kBefore || place == NormPlace::kBoth ? some : std::nullopt;
    branch->post_norm = place == NormPlace::kBefore ? std::nullopt : some;
    branch->norm_sum = place == NormPlace::kAfterAdd;
  }
}

void place_norms(ModelSpec& spec, NormPlace place) {
  for (LayerSpec& layer : spec.layers) place_norms(spec.norm, layer, place);
}

void remove_mlp_norm(ModelSpec& spec) {
  for (LayerSpec& layer : spec.layers) layer.feed_forward_branch.pre_norm.reset();
}

void multiply_branches(ModelSpec& spec, float factor) {
  for (LayerSpec& layer : spec.layers) {
    layer.mixer_branch.multiplier *= factor;
    layer.feed_forward_branch.multiplier *= factor;
  }
}

void use_experts(ModelSpec& spec, const MoeSpec& moe, const std::vector<bool>& sparse) {
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    if (!sparse[i]) continue;
    add_experts(spec.layers[i], moe, FeedForwardSpec::Experts::kParallel);
    spec.layers[i].feed_forward.mlp.reset();
  }
}

void add_experts(LayerSpec& layer, const MoeSpec& moe, FeedForwardSpec::Experts place) {
  FeedForwardSpec& own = layer.feed_forward;
  own.moe = moe;
  own.moe->activation = own.mlp->activation;
  own.moe->shared_bias = own.mlp->bias;
  own.experts = place;
}

void use_experts(ModelSpec& spec, const MoeSpec& moe) {
  use_experts(spec, moe, std::vector<bool>(spec.layers.size(), true));
}

void set_limits(LayerSpec& layer, float mlp, float experts) {
  if (auto* own = part_of<MlpSpec>(layer)) own->limit = mlp;
  if (auto* own = part_of<MoeSpec>(layer)) {
    own->shared_limit = mlp;
    own->expert_limit = experts;
  }
}

}  // namespace quire
