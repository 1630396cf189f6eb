// A model without its weights, as plain data: whole-model settings and one spec per layer. The architecture's
// file in models/arch makes it from config.json.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "contract/pooling.h"
#include "models/classifier_spec.h"
#include "nn/alt_up_spec.h"
#include "nn/attention_spec.h"
#include "nn/compressed_attention_spec.h"
#include "nn/delta_net_spec.h"
#include "nn/hyper_connection_spec.h"
#include "nn/lightning_spec.h"
#include "nn/mamba1_spec.h"
#include "nn/mamba_spec.h"
#include "nn/mixer_traits.h"
#include "nn/mla_spec.h"
#include "nn/mlp_spec.h"
#include "nn/moa_spec.h"
#include "nn/moe_spec.h"
#include "nn/norm_spec.h"
#include "nn/parallel_mixer_spec.h"
#include "nn/per_layer_input_spec.h"
#include "nn/pooler_spec.h"
#include "nn/rope_spec.h"
#include "nn/shared_block_spec.h"
#include "nn/short_conv_spec.h"

namespace quire {

class Checkpoint;

// The part of a layer that mixes tokens. monostate = none (the cross-attention layers of Llama 3.2 Vision
// without an image, the MLP layers of Nemotron-H).
using MixerSpec =
    std::variant<std::monostate, AttentionSpec, MlaSpec, CompressedAttentionSpec, MoaSpec, MambaSpec,
                 Mamba1Spec, DeltaNetSpec, KimiDeltaSpec, ShortConvSpec, LightningSpec, ParallelMixerSpec>;

// The feed-forward part of a layer: an MLP, experts, both, or neither.
struct FeedForwardSpec {
  // The experts of a layer that also has an MLP.
  enum class Experts : uint8_t {
    kParallel,  // read the same hidden states; the normalized outputs are added (Gemma 4)
    kShortcut,  // read the same input; their output is added at the end of the next layer (LongCat-Flash)
  };
  std::optional<MlpSpec> mlp;
  std::optional<MoeSpec> moe;
  Experts experts = Experts::kParallel;

  bool empty() const { return !mlp && !moe; }
  bool shortcut() const { return mlp && moe && experts == Experts::kShortcut; }
};

// A mixer or a feed-forward layer between its norms:
//   hidden = residual_multiplier * hidden + multiplier * post_norm(f(pre_norm(hidden))), or, with norm_sum,
//   hidden = post_norm(residual_multiplier * hidden + multiplier * f(pre_norm(hidden))).
struct BranchSpec {
  std::optional<NormSpec> pre_norm;
  std::optional<NormSpec> post_norm;
  bool norm_sum = false;
  float multiplier = 1.0F;
  float residual_multiplier = 1.0F;
};

inline constexpr int32_t kNoRope = -1;

struct LayerSpec {
  MixerSpec mixer;
  FeedForwardSpec feed_forward;
  BranchSpec mixer_branch;
  BranchSpec feed_forward_branch;
  int32_t rope = kNoRope;             // index into ModelSpec::ropes; kNoRope = no rotary embedding
  int32_t weight_sharing_layer = -1;  // the earlier layer whose weights this one uses; -1 = its own
  std::optional<SharedBlockUseSpec> shared_block;
};

enum class PositionKind : uint8_t { kRope, kLearned, kAlibi };

// A dense layer, its activation and a norm between the final norm and the language modeling head.
struct OutputHeadSpec {
  bool bias = false;  // the dense layer has one
  Activation activation = Activation::kGelu;
};

struct ModelSpec {
  std::string architecture;  // "LlamaForCausalLM"
  std::string model_type;    // "llama"

  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t max_position_embeddings = 0;  // as in config.json
  int64_t max_model_len = 0;            // longest sequence that the model supports, with RoPE scaling
  std::vector<LayerSpec> layers;
  std::vector<RopeSpec> ropes;  // the rotary embeddings that LayerSpec::rope refers to

  // The task. Models that do not generate have no language modeling head; their hidden states are pooled.
  ModelTask task = ModelTask::kGenerate;
  std::vector<PoolKind> pooling = {PoolKind::kLast};
  bool normalize = true;  // kEmbed: embeddings have length 1
  std::optional<ClassifierSpec>
      classifier;  // kScore; without one, the score is the difference of two logits:
  std::array<int32_t, 2> score_tokens = {-1, -1};  // the first token's minus the second's (-1 = none)
  ScoreActivation score_activation = ScoreActivation::kSoftmax;
  std::vector<std::string> labels;  // as in config.json
  bool bidirectional = false;       // tokens attend to later tokens too

  // Norms and residual structure. Each branch has its own norms; `norm` is for all others.
  NormSpec norm;
  std::optional<NormSpec> final_norm;
  bool parallel_residual = false;  // mixer and feed-forward read the same hidden states
  bool postnorm = false;           // branches are added to the normalized hidden states (MiniMax)
  bool layer_scalars = false;      // each layer has a factor on its output (Gemma 4)
  std::optional<AltUpSpec> alt_up;
  std::optional<StreamSpec> streams;

  // Embeddings.
  float embedding_multiplier = 1.0F;
  bool embedding_norm = false;
  int32_t token_types = 0;     // size of the token type table; 0 = none
  int32_t task_types = 0;      // size of the task table, whose first row is added to every token; 0 = none
  int64_t embedding_rest = 0;  // rows after the vocabulary that no token uses
  int64_t embedding_size = 0;  // if other than hidden_size: embeddings are projected to it and back
  // Token types, positions and the norm have embedding_size, their sum is projected to hidden_size, and the
  // output is not projected back (ALBERT, ELECTRA).
  bool project_embedding_sum = false;
  std::optional<PerLayerInputSpec> per_layer_input;
  // Tokens of images, videos and audio, which use the embeddings of pad_token_id. Their logits are their own.
  std::vector<int32_t> placeholder_ids;
  int32_t pad_token_id = 0;
  PositionKind position = PositionKind::kRope;
  int32_t position_offset = 0;  // kLearned: the row of position 0
  // kLearned: number of wavelengths of computed sinusoidal embeddings, from 1 to 10000; 0 = a table.
  int32_t sinusoid_steps = 0;
  std::optional<RelativeSpec> relative;  // the same in the attention of all layers
  double alibi_max_bias = 8.0;           // kAlibi (nn/attention_spec.h)
  double alibi_scale = 1.0;              // factor on the slopes

  // Output.
  bool tie_word_embeddings = false;
  bool lm_head_bias = false;
  std::optional<OutputHeadSpec> output_head;
  float logit_scale = 1.0F;
  float logit_softcap = 0.0F;  // 0 = none
  std::optional<int32_t> bos_token_id;
  std::vector<int32_t> eos_token_ids;  // of config.json; generation_config.json may have others

  // Settings in the files that the model does not follow, one sentence each, for the log.
  std::vector<std::string> warnings;

  int32_t num_layers() const { return static_cast<int32_t>(layers.size()); }
};

inline int64_t embedding_size_of(const ModelSpec& spec) {
  return spec.embedding_size > 0 ? spec.embedding_size : spec.hidden_size;
}

// The layer's multi-head or grouped-query attention, wherever it has one; null = none.
const AttentionSpec* attention_of(const LayerSpec& layer);
AttentionSpec* attention_of(LayerSpec& layer);

// The traits of the attention of the layer's shared block, or of its mixer.
MixerTraits mixer_traits(const LayerSpec& layer);

// The attention heads of a layer, or of its shared block; num_kv_heads 0 = none.
KvShape kv_shape(const LayerSpec& layer);
// The earlier layer whose keys and values this layer reads; -1 = its own, or it has none.
int32_t kv_sharing_layer(const LayerSpec& layer);
// The layer writes keys and values to the KV cache.
bool has_kv_cache(const LayerSpec& layer);
// Bytes of one KV block of the layer, with the keys of its indexer; 0 if it writes none.
int64_t kv_bytes_of(const LayerSpec& layer, DType dtype, int32_t block_size);
// State that the layer keeps per sequence besides keys and values; empty if none.
RecurrentSizes recurrent_sizes(const LayerSpec& layer);

// Maximum sizes of attention over all layers, for workspaces.
struct AttentionLimits {
  int32_t num_heads = 0;
  int32_t head_dim = 0;
  // Cache slots that a sequence of max_model_len tokens may take: more than its tokens if layers compress
  // keys.
  int64_t slots = 0;
};
AttentionLimits attention_limits(const ModelSpec& spec, int64_t max_model_len);

// The block size is a multiple of this, so that blocks of compressed keys have no empty slots.
int32_t block_unit(const ModelSpec& spec, int32_t block_size);

// Throws Error "config.json: ..." with the name of a missing, wrong or out-of-range field, or with the
// unsupported architecture and the supported ones.
ModelSpec parse_model(const nlohmann::json& config);
// The model of the checkpoint's configuration; errors name its file.
ModelSpec parse_checkpoint(const Checkpoint& checkpoint);

}  // namespace quire
