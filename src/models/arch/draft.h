// The draft of a model, which the parse function of an architecture fills from config.json: the common
// settings of all layers, and per layer those that differ. compose() converts it to a ModelSpec.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/model_spec.h"

namespace quire {

// The recurrent part of a layer, whose settings are in the draft's member of the same name.
enum class Recurrence : uint8_t { kNone, kMamba, kMamba1, kDeltaNet, kShortConv, kLightning, kKimiDelta };

// A layer: its parts, and the settings that differ from those of the draft.
struct LayerDraft {
  bool attention = true;
  Recurrence recurrence = Recurrence::kNone;  // instead of attention, or in parallel with it (kMamba)
  bool mlp = true;
  bool experts = false;   // ModelDraft::moe instead of the MLP
  bool shortcut = false;  // the experts next to the MLP: FeedForwardSpec::Experts::kShortcut
  int32_t rope = 0;       // index into ModelSpec::ropes; kNoRope = no rotary embedding

  // Attention.
  int32_t window = 0;            // sliding window in tokens, the token itself included; 0 = full attention
  int32_t chunk = 0;             // chunked attention (AttentionParams::chunk); 0 = none
  float attention_scale = 1.0F;  // multiplies q.k
  int32_t num_heads = 0;         // 0 = as in the draft, also for the next two
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  bool qk_norm = true;            // if the draft has QK norms
  bool sinks = true;              // if the draft has attention sinks
  bool k_eq_v = false;            // AttentionSpec::k_eq_v
  bool indexer = false;           // ModelDraft::indexer
  int32_t kv_sharing_layer = -1;  // AttentionSpec::kv_sharing_layer
  // CompressedAttentionSpec of the same names.
  int32_t compressed_tokens = 0;
  bool compressed_overlap = false;

  // Feed-forward layer.
  int64_t intermediate_size = 0;     // 0 = as in the draft
  double activation_sparsity = 0.0;  // MlpSpec
  float mlp_limit = 0.0F;            // MlpSpec::limit of the MLP or the shared expert
  float expert_limit = 0.0F;         // MlpSpec::limit of the experts
  bool hash_routing = false;         // a table has the experts of each token

  // Residual branches.
  bool input_norm = true;  // if the draft has it, also for the next two
  bool mlp_norm = true;
  bool branch_output_norms = true;
  float mixer_residual_multiplier = 1.0F;  // BranchSpec of the mixer
  float mixer_multiplier = 1.0F;

  int32_t weight_sharing_layer = -1;  // LayerSpec
  // SharedBlockUseSpec: the first layer that uses the block, and the number of this use. -1 = none.
  int32_t shared_block_owner = -1;
  int32_t shared_block_use = 0;

  bool mixes() const { return attention || recurrence != Recurrence::kNone; }
};

// Settings of the whole model are those of ModelSpec. The following ones apply to all layers that have the
// part. Norms without settings of their own use those of the model.
struct ModelDraft : ModelSpec {
  int32_t num_layers = 0;
  std::vector<LayerDraft> layers;  // [num_layers]

  NormKind norm = NormKind::kRms;
  float norm_eps = 1e-6F;
  float norm_weight_offset = 0.0F;
  bool norm_bias = false;  // kLayer

  bool input_norm = true;              // before the mixer
  bool mlp_norm = true;                // before the feed-forward layer
  bool branch_output_norms = false;    // after mixer and feed-forward layer, before the residual add
  bool norm_after_add = false;         // after the residual add (post-LN)
  std::optional<float> post_norm_eps;  // eps of branch_output_norms; nullopt = norm_eps
  bool final_norm = true;
  std::optional<float> final_norm_eps;   // nullopt = norm_eps
  float final_norm_offset = 0.0F;        // in addition to norm_weight_offset
  float residual_multiplier = 1.0F;      // factor on the output of both branches
  float mlp_multiplier = 1.0F;           // in addition, on the output of the feed-forward layer
  float mlp_residual_multiplier = 1.0F;  // factor on the hidden states to which that output is added

  Activation activation = Activation::kSilu;

  // Attention. Fields of the spec that LayerDraft also has are not read. value_dim 0 = head_dim.
  AttentionSpec attention;
  bool attention_gate = false;  // output gates: one per feature, or
  bool gate_per_head = false;   // one per head
  bool value_norm = false;      // RMS norm without weights over each value head
  bool has_sub_norms = false;   // before the output projections of attention and MLP
  IndexerSizes indexer;         // for layers with an indexer
  int32_t index_rope = kNoRope;
  std::optional<MixerSpec> mixer;  // instead of attention, in all layers that have it
  // Latent attention instead of other attention. attention.head_dim is then MlaSpec::cache_dim().
  std::optional<MlaSpec> mla;
  int32_t query_scale_rope = kNoRope;
  // Compressed attention instead of other attention.
  std::optional<CompressedAttentionSpec> compressed;
  int32_t inverse_rope = 0;  // for layers with rope 0; the next one is for layers with rope 1

  // Recurrent layers.
  std::optional<MambaSpec> mamba;
  std::optional<Mamba1Spec> mamba1;
  std::optional<DeltaNetSpec> delta_net;
  std::optional<ShortConvSpec> short_conv;
  std::optional<LightningSpec> lightning;
  std::optional<KimiDeltaSpec> kimi_delta;
  // Factors on the outputs of parallel attention and Mamba 2.
  float attention_multiplier = 1.0F;
  float mamba_multiplier = 1.0F;

  // Feed-forward layers.
  MlpSpec mlp;
  std::optional<MoeSpec> moe;
  bool parallel_moe = false;  // the experts next to the MLP: FeedForwardSpec::Experts::kParallel

  int64_t per_layer_input_size = 0;
  int64_t per_layer_input_vocab = 0;
  std::optional<SharedBlockSpec> shared_block;
};

ModelSpec compose(ModelDraft&& draft);

}  // namespace quire
