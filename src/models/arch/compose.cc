#include <utility>

#include "models/arch/draft.h"

namespace quire {
namespace {

NormSpec norm_spec(const ModelDraft& draft) {
  return {.kind = draft.norm,
          .eps = draft.norm_eps,
          .weight_offset = draft.norm_weight_offset,
          .bias = draft.norm_bias};
}

int32_t rope_of(const ModelDraft& draft, int32_t index) {
  return draft.ropes.empty() ? kNoRope : index;
}

AttentionSpec attention_spec(const ModelDraft& draft, const LayerDraft& layer) {
  const auto or_draft = [](int32_t own, int32_t default_value) { return own > 0 ? own : default_value; };
  AttentionSpec out = draft.attention;
  out.num_heads = or_draft(layer.num_heads, out.num_heads);
  out.num_kv_heads = or_draft(layer.num_kv_heads, out.num_kv_heads);
  out.head_dim = or_draft(layer.head_dim, out.head_dim);
  out.value_dim = or_draft(draft.attention.value_dim, out.head_dim);
  out.kv_sharing_layer = layer.kv_sharing_layer;
  out.k_eq_v = layer.k_eq_v;
  if (draft.attention_gate) out.num_gates = draft.gate_per_head ? out.num_heads : out.q_size();
  if (!layer.qk_norm) out.qk_norm = QkNorm::kNone;
  out.qk_norm_spec.eps = draft.norm_eps;
  out.qk_norm_spec.weight_offset = draft.norm_weight_offset;
  if (draft.value_norm) out.v_norm_eps = draft.norm_eps;
  if (draft.has_sub_norms) out.sub_norm = norm_spec(draft);
  out.sinks = out.sinks && layer.sinks;
  out.params.scale = layer.attention_scale;
  out.params.window = layer.window;
  out.params.chunk = layer.chunk;
  out.params.bidirectional = draft.bidirectional;
  if (layer.indexer) out.indexer = draft.indexer;
  out.relative = draft.relative;
  if (out.relative && out.relative->norm) out.relative->norm = norm_spec(draft);
  out.index_rope = rope_of(draft, draft.index_rope);
  return out;
}

MlaSpec mla_spec(const ModelDraft& draft, const LayerDraft& layer) {
  MlaSpec out = *draft.mla;
  out.num_heads = draft.attention.num_heads;
  out.hidden_size = draft.hidden_size;
  out.qkv_bias = draft.attention.qkv_bias;
  out.o_bias = draft.attention.o_bias;
  out.norm = norm_spec(draft);
  out.attention_scale = layer.attention_scale;
  out.index = draft.indexer;
  out.has_indexer = layer.indexer;
  out.index_rope = rope_of(draft, draft.index_rope);
  out.query_scale_rope = rope_of(draft, draft.query_scale_rope);
  return out;
}

CompressedAttentionSpec compressed_spec(const ModelDraft& draft, const LayerDraft& layer) {
  CompressedAttentionSpec out = *draft.compressed;
  out.indexer = layer.indexer;
  out.hidden_size = draft.hidden_size;
  out.norm = norm_spec(draft);
  out.compressed_tokens = layer.compressed_tokens;
  out.overlap = layer.compressed_overlap;
  out.qkv_bias = draft.attention.qkv_bias;
  out.o_bias = draft.attention.o_bias;
  out.scale = layer.attention_scale;
  out.window = layer.window;
  out.inverse_rope = rope_of(draft, draft.inverse_rope + layer.rope);
  return out;
}

MambaSpec mamba_spec(const ModelDraft& draft) {
  MambaSpec out = *draft.mamba;
  out.norm_eps = out.norm_eps.value_or(draft.norm_eps);
  return out;
}

MixerSpec mixer_spec(const ModelDraft& draft, const LayerDraft& layer) {
  const bool attends = layer.attention && layer.shared_block_owner < 0;
  switch (layer.recurrence) {
    case Recurrence::kNone:
      break;
    case Recurrence::kMamba: {
      if (!attends) return mamba_spec(draft);
      return ParallelMixerSpec{.attention = attention_spec(draft, layer),
                               .mamba = mamba_spec(draft),
                               .attention_multiplier = draft.attention_multiplier,
                               .mamba_multiplier = draft.mamba_multiplier};
    }
    case Recurrence::kMamba1:
      return *draft.mamba1;
    case Recurrence::kDeltaNet: {
      DeltaNetSpec out = *draft.delta_net;
      out.norm_eps = out.norm_eps.value_or(draft.norm_eps);
      out.activation = draft.activation;
      return out;
    }
    case Recurrence::kShortConv:
      return *draft.short_conv;
    case Recurrence::kLightning: {
      LightningSpec out = *draft.lightning;
      out.activation = draft.activation;
      out.norm = norm_spec(draft);
      return out;
    }
    case Recurrence::kKimiDelta: {
      KimiDeltaSpec out = *draft.kimi_delta;
      out.norm_eps = draft.norm_eps;
      out.activation = draft.activation;
      return out;
    }
  }
  if (!attends) return {};
  if (draft.mixer) return *draft.mixer;
  if (draft.compressed) return compressed_spec(draft, layer);
  if (draft.mla) return mla_spec(draft, layer);
  return attention_spec(draft, layer);
}

MlpSpec mlp_spec(const ModelDraft& draft, const LayerDraft& layer) {
  MlpSpec out = draft.mlp;
  if (layer.intermediate_size > 0) out.intermediate_size = layer.intermediate_size;
  out.activation = draft.activation;
  if (draft.has_sub_norms) out.sub_norm = norm_spec(draft);
  out.activation_sparsity = layer.activation_sparsity;
  out.limit = layer.mlp_limit;
  return out;
}

FeedForwardSpec feed_forward_spec(const ModelDraft& draft, const LayerDraft& layer) {
  FeedForwardSpec out;
  if (layer.shared_block_owner >= 0) return out;
  if (layer.experts ? draft.parallel_moe || layer.shortcut : layer.mlp) out.mlp = mlp_spec(draft, layer);
  if (!layer.experts) return out;
  MoeSpec& moe = out.moe.emplace(*draft.moe);
  moe.activation = draft.activation;
  moe.shared_bias = draft.mlp.bias;
  moe.expert_limit = layer.expert_limit;
  moe.shared_limit = layer.mlp_limit;
  if (layer.hash_routing) moe.hash_vocab_size = draft.vocab_size;
  if (!draft.parallel_moe) out.experts = FeedForwardSpec::Experts::kShortcut;
  return out;
}

BranchSpec branch_spec(const ModelDraft& draft, const LayerDraft& layer, bool pre_norm) {
  BranchSpec out{.norm_sum = draft.norm_after_add, .multiplier = draft.residual_multiplier};
  if (pre_norm) out.pre_norm = norm_spec(draft);
  if ((draft.branch_output_norms && layer.branch_output_norms) || draft.norm_after_add) {
    out.post_norm = norm_spec(draft);
    out.post_norm->eps = draft.post_norm_eps.value_or(draft.norm_eps);
  }
  return out;
}

LayerSpec layer_spec(const ModelDraft& draft, const LayerDraft& layer) {
  LayerSpec out;
  out.mixer = mixer_spec(draft, layer);
  out.feed_forward = feed_forward_spec(draft, layer);
  if (layer.mixes()) {
    out.mixer_branch = branch_spec(draft, layer, draft.input_norm && layer.input_norm);
    out.mixer_branch.multiplier *= layer.mixer_multiplier;
    out.mixer_branch.residual_multiplier = layer.mixer_residual_multiplier;
  }
  if (layer.mlp && layer.shared_block_owner < 0) {
    out.feed_forward_branch = branch_spec(draft, layer, draft.mlp_norm && layer.mlp_norm);
    out.feed_forward_branch.multiplier *= draft.mlp_multiplier;
    if (layer.experts) out.feed_forward_branch.multiplier *= draft.moe->multiplier;
    out.feed_forward_branch.residual_multiplier = draft.mlp_residual_multiplier;
  }
  out.rope = rope_of(draft, layer.rope);
  out.weight_sharing_layer = layer.weight_sharing_layer;
  if (layer.shared_block_owner >= 0) {
    out.shared_block = SharedBlockUseSpec{.adapters = *draft.shared_block,
                                          .owner = layer.shared_block_owner,
                                          .use = layer.shared_block_use,
                                          .attention = attention_spec(draft, layer),
                                          .mlp = mlp_spec(draft, layer)};
  }
  return out;
}

}  // namespace

ModelSpec compose(ModelDraft&& draft) {
  std::vector<LayerSpec> layers;
  layers.reserve(draft.layers.size());
  for (const LayerDraft& layer : draft.layers) layers.push_back(layer_spec(draft, layer));
  const NormSpec norm = norm_spec(draft);
  std::optional<NormSpec> final_norm;
  if (draft.final_norm) {
    final_norm = norm;
    final_norm->weight_offset += draft.final_norm_offset;
    final_norm->eps = draft.final_norm_eps.value_or(draft.norm_eps);
  }
  std::optional<PerLayerInputSpec> per_layer_input;
  if (draft.per_layer_input_size > 0)
    per_layer_input = {draft.per_layer_input_size, draft.per_layer_input_vocab, draft.activation};
  ModelSpec out = std::move(static_cast<ModelSpec&>(draft));
  out.layers = std::move(layers);
  out.norm = norm;
  out.final_norm = final_norm;
  out.per_layer_input = per_layer_input;
  return out;
}

}  // namespace quire
