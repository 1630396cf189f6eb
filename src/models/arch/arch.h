// Shared by several architectures: parsers of families with the same fields in config.json, and readers of
// parts.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/config_reader.h"
#include "models/arch/architectures.h"
#include "models/arch/layers.h"
#include "models/tensor_names.h"

namespace quire {

ModelSpec parse_bert(const ConfigReader& config);
ModelSpec parse_llama(const ConfigReader& config);

WeightNames deepseek_weight_names();
WeightNames llama_weight_names();

// Defaults of the rotary embedding for fields that config.json does not have.
struct RopeDefaults {
  double theta = 10000.0;
  RopeStyle style = RopeStyle::kNeox;
  bool partial = false;  // partial_rotary_factor is supported
  double part = 1.0;     // its default
  // Default theta of layers with a sliding window, if they may have a rotary embedding of their own; 0 = they
  // may not.
  double window_theta = 0.0;
};

// Defaults and names of the fields that the configurations of the Llama family have in common: sizes, norm,
// activation, RoPE, token ids. head_dim 0 = hidden_size / num_attention_heads.
struct LlamaDefaults {
  int32_t head_dim = 0;
  int64_t max_position_embeddings = 2048;
  RopeDefaults rope = {};
  bool tie_word_embeddings = false;
  std::string_view activation_field = "hidden_act";
  std::string_view activation = "silu";
  std::string_view intermediate_field = "intermediate_size";
  int64_t intermediate_size = 0;  // 0 = required
  int64_t num_layers = 0;         // 0 = required
  std::string_view layers_field = "num_hidden_layers";
  double norm_eps = 1e-6;
};
ModelSpec parse_llama_family(const ConfigReader& config, const LlamaDefaults& defaults);

// Same, for models with latent attention (nn/mla.cc).
struct LatentDefaults {
  int64_t max_position_embeddings = 2048;
  bool interleaved = true;     // RoPE style
  bool part_of_heads = false;  // partial_rotary_factor refers to qk_nope_head_dim + qk_rope_head_dim
  int32_t value = 0;           // default of v_head_dim; 0 = required
  bool tie_word_embeddings = false;
  double theta = 10000.0;
  std::string_view intermediate_field = "intermediate_size";
  std::string_view layers_field = "num_hidden_layers";
  double norm_eps = 1e-6;
};
ModelSpec parse_latent_family(const ConfigReader& config, const LatentDefaults& defaults);

// Names of the fields with the number of experts and their size, and default values (0 = required).
struct ExpertFields {
  std::string_view experts = "num_experts";
  std::string_view chosen = "num_experts_per_tok";
  std::string_view intermediate = "moe_intermediate_size";
  int64_t default_experts = 0;
  int64_t default_chosen = 0;
  // DeepSeek's experts only:
  std::string_view groups = "n_group";
  std::string_view normalize = "norm_topk_prob";
  int64_t default_groups = 1;
  int64_t default_topk_group = 1;
};
// The name of the field with the number of experts in this configuration: `field`, or another name that other
// versions of transformers write.
std::string_view experts_field(const ConfigReader& config, std::string_view field);
// Experts that are selected by the softmax of their logits.
MoeSpec read_experts(const ConfigReader& config, const ExpertFields& fields);
// Same, with Mixtral's field names, and normalized weights.
MoeSpec read_mixtral_experts(const ConfigReader& config);
// The activation of gpt-oss in all layers (`swiglu_alpha`, `swiglu_limit`), after use_experts().
void read_clamped_swish(const ConfigReader& config, ModelSpec& spec);
// Experts selected by sigmoid scores with a correction bias, and shared experts (`route_norm`,
// `num_shared_experts`). scale: name of the field with the factor on their weights.
MoeSpec read_sigmoid_experts(const ConfigReader& config, const ExpertFields& fields, std::string_view scale,
                             double default_scale, int64_t default_shared);
// DeepSeek-V3's experts: selected by sigmoid scores with a correction bias, with groups, and shared experts.
// shared: name of the field with their number.
MoeSpec read_deepseek_experts(const ConfigReader& config,
                              const ExpertFields& fields = {.experts = "n_routed_experts"},
                              std::string_view shared = "n_shared_experts");
// Same, with the field names of Kimi Linear and its successors in addition to those of transformers.
struct KimiExperts {
  int64_t experts = 256;
  int64_t groups = 1;
  int64_t topk_group = 1;
  double scale = 1.0;
};
MoeSpec read_kimi_experts(const ConfigReader& config, const KimiExperts& defaults);
// Reads max_position_embeddings or model_max_length of a model without RoPE scaling.
void read_kimi_positions(const ConfigReader& config, ModelSpec& spec, int64_t fallback);

// Which layers have experts: the sparse ones of `mlp_layer_types`, otherwise all but the first `dense`.
std::vector<bool> sparse_layers(const ConfigReader& config, const ModelSpec& spec, int64_t dense);
// All layers from number `first` on.
std::vector<bool> layers_from(const ModelSpec& spec, int64_t first);
// Qwen2 and later: every decoder_sparse_step-th layer except those in mlp_only_layers.
std::vector<bool> qwen_sparse_layers(const ConfigReader& config, const ModelSpec& spec);

// Names of the fields with the sizes of Mamba 2, and default values.
struct MambaFields {
  std::string_view heads = "mamba_n_heads";
  std::string_view head_dim = "mamba_d_head";
  std::string_view groups = "mamba_n_groups";
  std::string_view state = "mamba_d_state";
  std::string_view conv_kernel = "mamba_d_conv";
  // The inner size is expand * hidden_size, or the field `inner` if it is present. Empty = no such field.
  std::string_view expand = "mamba_expand";
  std::string_view inner = "";
  std::string_view conv_bias = "mamba_conv_bias";
  std::string_view bias = "mamba_proj_bias";
  std::string_view activation = "hidden_act";
  int64_t default_heads = 128;
  int64_t default_groups = 1;
  int64_t default_state = 256;
};
// The norm's eps is that of the model.
MambaSpec read_mamba(const ConfigReader& config, const ModelSpec& spec, const MambaFields& fields);

// The activation is that of the MLPs, the norm's eps that of the model.
DeltaNetSpec read_delta_net(const ConfigReader& config, const ModelSpec& spec, const DeltaNetSpec& defaults);
// `layer_types`. If it is absent, every interval-th layer has attention.
std::vector<std::string> read_mixers(const ConfigReader& config, const ModelSpec& spec, int64_t interval);

// Default values for models with recurrent layers only.
struct StateModelDefaults {
  int64_t vocab_size;
  int64_t hidden_size;
  int64_t num_layers;
};
// A model whose layers have a recurrent mixer only, which the caller sets.
ModelSpec read_state_model(const ConfigReader& config, const StateModelDefaults& defaults);

// Sets which layers keep their attention and which have the recurrent mixer instead. kinds: type of each
// layer; field: where they were read.
void assign_mixers(const ConfigReader& config, ModelSpec& spec, std::string_view field,
                   const MixerSpec& recurrent, const std::vector<std::string>& kinds);

// Names of the fields with sizes in configurations that predate Llama's names.
struct SizeFields {
  std::string_view hidden = "hidden_size";
  std::string_view layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads";
  std::string_view intermediate = "intermediate_size";  // default: four times the hidden size
  std::string_view positions = "max_position_embeddings";
  int64_t default_positions = 2048;
};
// Those of GPT-2 and its successors.
inline constexpr SizeFields kGpt2Sizes = {.hidden = "n_embd",
                                          .layers = "n_layer",
                                          .heads = "n_head",
                                          .intermediate = "n_inner",
                                          .positions = "n_positions",
                                          .default_positions = 1024};
// Reads sizes and token ids of a model with multi-head attention and LayerNorm with biases. All layers are
// the same; scores are divided by sqrt(head_dim).
ModelSpec read_sizes(const ConfigReader& config, const SizeFields& fields);

// Whether each layer has a sliding window: `layer_types`, otherwise all but one of `pattern` layers, which is
// the last one or number `full`.
std::vector<bool> sliding_layers(const ConfigReader& config, const ModelSpec& spec, int64_t pattern,
                                 int64_t full = -1);

// Sets the window of the sliding layers, and the rotary embedding of both kinds of layers.
void assign_windows(ModelSpec& spec, const std::vector<bool>& sliding, int32_t window, int32_t window_rope,
                    int32_t full_rope);
// Sets the window of all layers to `sliding_window` (null = none). fallback: value of an absent field (0 =
// none).
void read_window(const ConfigReader& config, ModelSpec& spec, int64_t fallback);

// Sliding windows of Qwen2 and Qwen3: none unless use_sliding_window; then by `layer_types`, or from layer
// max_window_layers on.
void read_qwen_windows(const ConfigReader& config, ModelSpec& spec);

// Reads rope_theta, rope_scaling and rope_parameters in their old and new forms: one rotary embedding for all
// layers, or one for layers with full attention and one for those with a window. Sets spec.ropes and
// spec.max_model_len; requires head_dim and max_position_embeddings.
void read_rope(const ConfigReader& config, ModelSpec& spec, const RopeDefaults& defaults);
// KV sharing of Gemma 3n and 4: each of the last num_kv_shared_layers layers uses the KV cache of the last
// layer of its type before them. Requires the windows of the layers.
void read_shared_caches(const ConfigReader& config, ModelSpec& spec, int64_t fallback);

// Reads embedding_size of encoders that sum all embeddings before they are projected to the hidden size.
void read_projected_embeddings(const ConfigReader& config, ModelSpec& spec);
// Attention temperature scaling (llama_4_scaling_beta in rope_parameters) of Ministral 3 and Mistral 4.
void read_query_scale(const ConfigReader& config, RopeSpec& turned);
// clip_qkv: queries, keys and values are clamped to [-clip_qkv, clip_qkv]; 0 = not.
float read_clip_qkv(const ConfigReader& config);
// eos_token_id and bos_token_id.
void read_token_ids(const ConfigReader& config, ModelSpec& spec);

// Reads the eps of the model's norm and of those of its layers (set_norm).
void read_norm_eps(const ConfigReader& config, ModelSpec& spec, std::string_view field, double fallback);
// LayerNorm with biases; field: its eps.
void read_layer_norm(const ConfigReader& config, ModelSpec& spec, std::string_view field);

// An activation by its name in transformers. Throws Error with the field and the supported names.
Activation read_activation(const ConfigReader& config, std::string_view field, std::string_view fallback);

// Far above the sizes of any model; they keep products of sizes within 64 bits.
inline constexpr int64_t kMaxSize = int64_t{1} << 24;
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxPositions = int64_t{1} << 30;

}  // namespace quire
