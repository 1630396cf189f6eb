// What the architectures' files give to the registry, and what they share.
#pragma once

#include "models/arch_spec.h"
#include "models/config_reader.h"
#include "models/weight_names.h"

namespace quire {

ArchSpec parse_afmoe(const ConfigReader& config);
ArchSpec parse_albert(const ConfigReader& config);
ArchSpec parse_apertus(const ConfigReader& config);
ArchSpec parse_arcee(const ConfigReader& config);
ArchSpec parse_aria(const ConfigReader& config);
ArchSpec parse_bailing_hybrid(const ConfigReader& config);
ArchSpec parse_bamba(const ConfigReader& config);
ArchSpec parse_bert(const ConfigReader& config);
ArchSpec parse_biogpt(const ConfigReader& config);
ArchSpec parse_bitnet(const ConfigReader& config);
ArchSpec parse_bloom(const ConfigReader& config);
ArchSpec parse_codegen(const ConfigReader& config);
ArchSpec parse_ctrl(const ConfigReader& config);
ArchSpec parse_cohere(const ConfigReader& config);
ArchSpec parse_cohere2(const ConfigReader& config);
ArchSpec parse_cohere2_moe(const ConfigReader& config);
ArchSpec parse_cohere_compass(const ConfigReader& config);
ArchSpec parse_cwm(const ConfigReader& config);
ArchSpec parse_deberta_v2(const ConfigReader& config);
ArchSpec parse_deepseek_v2(const ConfigReader& config);
ArchSpec parse_deepseek_v3(const ConfigReader& config);
ArchSpec parse_deepseek_v32(const ConfigReader& config);
ArchSpec parse_deepseek_v4(const ConfigReader& config);
ArchSpec parse_distilbert(const ConfigReader& config);
ArchSpec parse_dots1(const ConfigReader& config);
ArchSpec parse_electra(const ConfigReader& config);
ArchSpec parse_ernie4_5(const ConfigReader& config);
ArchSpec parse_ernie4_5_moe(const ConfigReader& config);
ArchSpec parse_ernie4_5_vl_moe(const ConfigReader& config);
ArchSpec parse_eurobert(const ConfigReader& config);
ArchSpec parse_exaone4(const ConfigReader& config);
ArchSpec parse_exaone_moe(const ConfigReader& config);
ArchSpec parse_falcon(const ConfigReader& config);
ArchSpec parse_falcon_h1(const ConfigReader& config);
ArchSpec parse_falcon_mamba(const ConfigReader& config);
ArchSpec parse_flex_olmo(const ConfigReader& config);
ArchSpec parse_gemma(const ConfigReader& config);
ArchSpec parse_gemma2(const ConfigReader& config);
ArchSpec parse_gemma3(const ConfigReader& config);
ArchSpec parse_gemma3n(const ConfigReader& config);
ArchSpec parse_gemma4(const ConfigReader& config);
ArchSpec parse_gemma4_unified(const ConfigReader& config);
ArchSpec parse_glm(const ConfigReader& config);
ArchSpec parse_glm4(const ConfigReader& config);
ArchSpec parse_glm4_moe(const ConfigReader& config);
ArchSpec parse_glm4_moe_lite(const ConfigReader& config);
ArchSpec parse_glm_moe_dsa(const ConfigReader& config);
ArchSpec parse_glm_ocr(const ConfigReader& config);
ArchSpec parse_gpt2(const ConfigReader& config);
ArchSpec parse_gpt_bigcode(const ConfigReader& config);
ArchSpec parse_gpt_neo(const ConfigReader& config);
ArchSpec parse_gpt_neox(const ConfigReader& config);
ArchSpec parse_gpt_oss(const ConfigReader& config);
ArchSpec parse_gptj(const ConfigReader& config);
ArchSpec parse_granite(const ConfigReader& config);
ArchSpec parse_granite_swa(const ConfigReader& config);
ArchSpec parse_granitemoe(const ConfigReader& config);
ArchSpec parse_granitemoe_swa(const ConfigReader& config);
ArchSpec parse_granitemoehybrid(const ConfigReader& config);
ArchSpec parse_gte(const ConfigReader& config);
ArchSpec parse_helium(const ConfigReader& config);
ArchSpec parse_hunyuan_dense(const ConfigReader& config);
ArchSpec parse_hunyuan_moe(const ConfigReader& config);
ArchSpec parse_hy_v3(const ConfigReader& config);
ArchSpec parse_hyperclovax(const ConfigReader& config);
ArchSpec parse_jais2(const ConfigReader& config);
ArchSpec parse_jamba(const ConfigReader& config);
ArchSpec parse_jina_embeddings_v3(const ConfigReader& config);
ArchSpec parse_kimi_linear(const ConfigReader& config);
ArchSpec parse_kolibri1(const ConfigReader& config);
ArchSpec parse_laguna(const ConfigReader& config);
ArchSpec parse_lfm2(const ConfigReader& config);
ArchSpec parse_lfm2_moe(const ConfigReader& config);
ArchSpec parse_lfm3(const ConfigReader& config);
ArchSpec parse_llama(const ConfigReader& config);
ArchSpec parse_llama4(const ConfigReader& config);
ArchSpec parse_longcat_flash(const ConfigReader& config);
ArchSpec parse_mamba(const ConfigReader& config);
ArchSpec parse_mamba2(const ConfigReader& config);
ArchSpec parse_mellum(const ConfigReader& config);
ArchSpec parse_mimo_v2_flash(const ConfigReader& config);
ArchSpec parse_minicpm(const ConfigReader& config);
ArchSpec parse_minicpm3(const ConfigReader& config);
ArchSpec parse_minimax(const ConfigReader& config);
ArchSpec parse_minimax_m2(const ConfigReader& config);
ArchSpec parse_minimax_m3(const ConfigReader& config);
ArchSpec parse_ministral(const ConfigReader& config);
ArchSpec parse_ministral3(const ConfigReader& config);
ArchSpec parse_mistral(const ConfigReader& config);
ArchSpec parse_mistral4(const ConfigReader& config);
ArchSpec parse_mixtral(const ConfigReader& config);
ArchSpec parse_mllama(const ConfigReader& config);
ArchSpec parse_modernbert(const ConfigReader& config);
ArchSpec parse_modernbert_decoder(const ConfigReader& config);
ArchSpec parse_mpnet(const ConfigReader& config);
ArchSpec parse_mpt(const ConfigReader& config);
ArchSpec parse_muse_glimmer(const ConfigReader& config);
ArchSpec parse_nanochat(const ConfigReader& config);
ArchSpec parse_nemotron(const ConfigReader& config);
ArchSpec parse_nemotron_h(const ConfigReader& config);
ArchSpec parse_nomic_bert(const ConfigReader& config);
ArchSpec parse_olmo(const ConfigReader& config);
ArchSpec parse_olmo2(const ConfigReader& config);
ArchSpec parse_olmo3(const ConfigReader& config);
ArchSpec parse_olmo_hybrid(const ConfigReader& config);
ArchSpec parse_olmoe(const ConfigReader& config);
ArchSpec parse_openai_gpt(const ConfigReader& config);
ArchSpec parse_opt(const ConfigReader& config);
ArchSpec parse_paddleocr_vl(const ConfigReader& config);
ArchSpec parse_persimmon(const ConfigReader& config);
ArchSpec parse_phi(const ConfigReader& config);
ArchSpec parse_phi3(const ConfigReader& config);
ArchSpec parse_phimoe(const ConfigReader& config);
ArchSpec parse_qwen2(const ConfigReader& config);
ArchSpec parse_qwen2_moe(const ConfigReader& config);
ArchSpec parse_qwen3(const ConfigReader& config);
ArchSpec parse_qwen3_5(const ConfigReader& config);
ArchSpec parse_qwen3_5_moe(const ConfigReader& config);
ArchSpec parse_qwen3_moe(const ConfigReader& config);
ArchSpec parse_qwen3_next(const ConfigReader& config);
ArchSpec parse_roberta(const ConfigReader& config);
ArchSpec parse_seed_oss(const ConfigReader& config);
ArchSpec parse_smollm3(const ConfigReader& config);
ArchSpec parse_solar_open(const ConfigReader& config);
ArchSpec parse_stablelm(const ConfigReader& config);
ArchSpec parse_starcoder2(const ConfigReader& config);
ArchSpec parse_step3(const ConfigReader& config);
ArchSpec parse_vaultgemma(const ConfigReader& config);
ArchSpec parse_xglm(const ConfigReader& config);
ArchSpec parse_youtu(const ConfigReader& config);
ArchSpec parse_zamba2(const ConfigReader& config);

WeightNames afmoe_weight_names();
WeightNames albert_weight_names();
WeightNames apertus_weight_names();
WeightNames arcee_weight_names();
WeightNames aria_weight_names();
WeightNames bailing_hybrid_weight_names();
WeightNames bamba_weight_names();
WeightNames bert_weight_names();
WeightNames biogpt_weight_names();
WeightNames bitnet_weight_names();
WeightNames bloom_weight_names();
WeightNames codegen_weight_names();
WeightNames ctrl_weight_names();
WeightNames cohere_weight_names();
WeightNames deberta_v2_weight_names();
WeightNames deepseek_weight_names();
WeightNames deepseek_v32_weight_names();
WeightNames deepseek_v4_weight_names();
WeightNames distilbert_weight_names();
WeightNames dots1_weight_names();
WeightNames ernie4_5_moe_weight_names();
WeightNames ernie4_5_vl_moe_weight_names();
WeightNames exaone4_weight_names();
WeightNames exaone_moe_weight_names();
WeightNames falcon_weight_names();
WeightNames flex_olmo_weight_names();
WeightNames gemma2_weight_names();
WeightNames gemma3_weight_names();
WeightNames gemma3n_weight_names();
WeightNames gemma4_weight_names();
WeightNames gemma_weight_names();
WeightNames glm4_moe_weight_names();
WeightNames glm_ocr_weight_names();
WeightNames glm_weight_names();
WeightNames gpt2_weight_names();
WeightNames gpt_bigcode_weight_names();
WeightNames gpt_neo_weight_names();
WeightNames gpt_neox_weight_names();
WeightNames gpt_oss_weight_names();
WeightNames gptj_weight_names();
WeightNames granite_swa_weight_names();
WeightNames granitemoe_swa_weight_names();
WeightNames granitemoe_weight_names();
WeightNames granitemoehybrid_weight_names();
WeightNames gte_weight_names();
WeightNames hunyuan_dense_weight_names();
WeightNames hunyuan_moe_weight_names();
WeightNames hy_v3_weight_names();
WeightNames hyperclovax_weight_names();
WeightNames jamba_weight_names();
WeightNames jina_embeddings_v3_weight_names();
WeightNames kimi_linear_weight_names();
WeightNames kolibri1_weight_names();
WeightNames laguna_weight_names();
WeightNames lfm2_moe_weight_names();
WeightNames lfm2_weight_names();
WeightNames lfm3_weight_names();
WeightNames llama4_weight_names();
WeightNames llama_weight_names();
WeightNames longcat_flash_weight_names();
WeightNames mamba2_weight_names();
WeightNames mamba_weight_names();
WeightNames mimo_v2_weight_names();
WeightNames minimax_weight_names();
WeightNames minimax_m2_weight_names();
WeightNames minimax_m3_weight_names();
WeightNames mixtral_weight_names();
WeightNames modernbert_weight_names();
WeightNames modernbert_decoder_weight_names();
WeightNames mpnet_weight_names();
WeightNames mpt_weight_names();
WeightNames muse_glimmer_weight_names();
WeightNames nanochat_weight_names();
WeightNames nemotron_h_weight_names();
WeightNames nemotron_weight_names();
WeightNames nomic_bert_weight_names();
WeightNames olmo2_weight_names();
WeightNames olmo_hybrid_weight_names();
WeightNames olmo_weight_names();
WeightNames olmoe_weight_names();
WeightNames openai_gpt_weight_names();
WeightNames opt_weight_names();
WeightNames persimmon_weight_names();
WeightNames phi3_weight_names();
WeightNames phi_weight_names();
WeightNames phimoe_weight_names();
WeightNames qwen2_moe_weight_names();
WeightNames qwen3_5_weight_names();
WeightNames qwen3_moe_weight_names();
WeightNames qwen3_next_weight_names();
WeightNames qwen3_weight_names();
WeightNames stablelm_weight_names();
WeightNames starcoder2_weight_names();
WeightNames step3_weight_names();
WeightNames vaultgemma_weight_names();
WeightNames xglm_weight_names();
WeightNames zamba2_weight_names();

// What an architecture's rotary positions are where config.json does not say it.
struct RopeDefaults {
  double theta = 10000.0;
  RopeStyle style = RopeStyle::kHalves;
  bool partial = false;  // a part of a head's dimensions may turn
  double part = 1.0;     // which part
  // Layers with a window may have a rotation of their own, of this theta; 0: they may not.
  double window_theta = 0.0;
};

// What the Llama family's configurations have in common: sizes, norm, activation, rotary positions, token
// ids. head_dim and max_position_embeddings: what an absent field means (head_dim 0: hidden_size /
// num_attention_heads).
struct LlamaDefaults {
  int32_t head_dim = 0;
  int64_t max_position_embeddings = 2048;
  RopeDefaults rope = {};
  bool tie_word_embeddings = false;
  std::string_view activation_field = "hidden_act";
  std::string_view activation = "silu";
  std::string_view intermediate_field = "intermediate_size";
  int64_t intermediate_size = 0;  // 0: it must be there
  int64_t num_layers = 0;         // 0: it must be there
  std::string_view layers_field = "num_hidden_layers";
};
ArchSpec parse_llama_family(const ConfigReader& config, const LlamaDefaults& defaults);

// The same of models with latent attention (nn/mla.h).
struct LatentDefaults {
  int64_t max_position_embeddings = 2048;
  bool interleaved = true;     // pairs of neighbours turn
  bool part_of_heads = false;  // the configuration says which part of a whole query head turns
  int32_t value = 0;           // v_head_dim where it is not said; 0: it must be
  bool tie_word_embeddings = false;
  double theta = 10000.0;
  std::string_view intermediate_field = "intermediate_size";
  std::string_view layers_field = "num_hidden_layers";
};
ArchSpec parse_latent_family(const ConfigReader& config, const LatentDefaults& defaults);

// The fields that give the number of experts and the size of one, and what absent ones mean; 0: they must be
// there.
struct ExpertFields {
  std::string_view experts = "num_experts";
  std::string_view chosen = "num_experts_per_tok";
  std::string_view intermediate = "moe_intermediate_size";
  int64_t default_experts = 0;
  int64_t default_chosen = 0;
  // Of DeepSeek's experts:
  std::string_view groups = "n_group";
  std::string_view normalize = "norm_topk_prob";
  int64_t default_groups = 1;
  int64_t default_chosen_groups = 1;
};
// The field that has the number of experts: `field`, or another name of it, as versions of transformers write
// the same model's files with different ones.
std::string_view experts_field(const ConfigReader& config, std::string_view field);
// Experts in all layers, chosen by the softmax of their logits.
MoeSpec& read_experts(const ConfigReader& config, ArchSpec& spec, const ExpertFields& fields);
// The same with the fields of Mixtral, and weights that sum to 1.
MoeSpec& read_mixtral_experts(const ConfigReader& config, ArchSpec& spec);
// Experts chosen by sigmoids with a correction, shared ones beside them (`route_norm`, `num_shared_experts`).
// scale: the field of what their weights are multiplied with.
MoeSpec& read_sigmoid_experts(const ConfigReader& config, ArchSpec& spec, const ExpertFields& fields,
                              std::string_view scale, double default_scale, int64_t default_shared);
// Experts as DeepSeek-V3 has them in all but the first layers: chosen by sigmoids with a correction, by
// groups, a shared one beside them. `shared`: the field that says how many of these.
MoeSpec& read_deepseek_experts(const ConfigReader& config, ArchSpec& spec,
                               const ExpertFields& fields = {.experts = "n_routed_experts"},
                               std::string_view shared = "n_shared_experts");
// The same with the field names of Kimi Linear and of what came from it, besides those of transformers.
struct KimiExperts {
  int64_t experts = 256;
  int64_t groups = 1;
  int64_t chosen_groups = 1;
  double scale = 1.0;
};
MoeSpec& read_kimi_experts(const ConfigReader& config, ArchSpec& spec, const KimiExperts& defaults);
// max_position_embeddings or model_max_length, of a model whose rotation is not stretched.
void read_kimi_positions(const ConfigReader& config, ArchSpec& spec, int64_t fallback);

// Which layers have experts: those that `mlp_layer_types` calls sparse, else all but the first so many.
void assign_experts(const ConfigReader& config, ArchSpec& spec, int64_t dense);

// Experts as Qwen2 and later write them: all layers but those named, every so many.
MoeSpec& read_qwen_experts(const ConfigReader& config, ArchSpec& spec, const ExpertFields& fields);

// The fields that give the sizes of Mamba 2, and what absent ones mean.
struct MambaFields {
  std::string_view heads = "mamba_n_heads";
  std::string_view head_dim = "mamba_d_head";
  std::string_view groups = "mamba_n_groups";
  std::string_view state = "mamba_d_state";
  std::string_view taps = "mamba_d_conv";
  // All heads together: so many times the hidden size, or a number that goes before that. Empty: no such
  // field.
  std::string_view expand = "mamba_expand";
  std::string_view inner = "";
  std::string_view conv_bias = "mamba_conv_bias";
  std::string_view bias = "mamba_proj_bias";
  std::string_view activation = "hidden_act";
  int64_t default_heads = 128;
  int64_t default_groups = 1;
  int64_t default_state = 256;
};
// Sets spec.mamba; wants hidden_size.
MambaSpec& read_mamba(const ConfigReader& config, ArchSpec& spec, const MambaFields& fields);

// Sets the sizes of spec.delta_net. defaults: what absent fields mean.
DeltaNetSizes& read_delta_net(const ConfigReader& config, ArchSpec& spec, const DeltaNetSizes& defaults);
// What `layer_types` says; absent: every so manieth layer attends.
std::vector<std::string> read_mixers(const ConfigReader& config, const ArchSpec& spec, int64_t interval);

// What a config of a model made of state layers alone may leave out.
struct StateModelDefaults {
  int64_t vocab_size;
  int64_t hidden_size;
  int64_t num_layers;
};
// The spec of a model whose layers have the recurrence in place of attention and no MLP. Its own spec is the
// caller's.
ArchSpec read_state_model(const ConfigReader& config, Recurrence recurrence,
                          const StateModelDefaults& defaults);

// Layers that attend, or have the recurrence in its place: `kinds` names what each is, `field` is where that
// was read.
void assign_mixers(const ConfigReader& config, ArchSpec& spec, std::string_view field, Recurrence recurrence,
                   const std::vector<std::string>& kinds);

// The fields that give the sizes of models older than Llama's way to write them.
struct SizeFields {
  std::string_view hidden = "hidden_size";
  std::string_view layers = "num_hidden_layers";
  std::string_view heads = "num_attention_heads";
  std::string_view intermediate = "intermediate_size";  // absent: four times the hidden size
  std::string_view positions = "max_position_embeddings";
  int64_t default_positions = 2048;
};
// Those of GPT-2 and what came from it.
inline constexpr SizeFields kGpt2Sizes = {.hidden = "n_embd",
                                          .layers = "n_layer",
                                          .heads = "n_head",
                                          .intermediate = "n_inner",
                                          .positions = "n_positions",
                                          .default_positions = 1024};
// Sizes and token ids of a model with as many key heads as query heads and LayerNorm with biases; layers that
// are all alike, scores divided by the square root of head_dim.
ArchSpec read_sizes(const ConfigReader& config, const SizeFields& fields);

// By layer, whether it has a sliding window: as `layer_types` says, else all but one of `pattern` layers: the
// last of them, or the one that `full` says.
std::vector<bool> sliding_layers(const ConfigReader& config, const ArchSpec& spec, int64_t pattern,
                                 int64_t full = -1);

// Windows for the layers that slide, and which rotation each kind of layer has.
void assign_windows(ArchSpec& spec, const std::vector<bool>& sliding, int32_t window, int32_t window_rope,
                    int32_t full_rope);
// The window of all layers, as `sliding_window` says it; null: there is none. fallback: what an absent field
// means (0: none).
void read_window(const ConfigReader& config, ArchSpec& spec, int64_t fallback);

// Sliding windows as Qwen2 and Qwen3 write them: off unless use_sliding_window; then by `layer_types`, or
// from layer max_window_layers on.
void read_qwen_windows(const ConfigReader& config, ArchSpec& spec);

// rope_theta, rope_scaling and rope_parameters, in their old and new spellings: the one rotation of all
// layers, or that of layers that see everything and that of layers with a window. Sets spec.ropes and
// spec.max_model_len; wants head_dim and max_position_embeddings.
void read_rope(const ConfigReader& config, ArchSpec& spec, const RopeDefaults& defaults);
// Which layers read the keys and values of earlier ones, as Gemma 3n and 4 say it: the last so many, each
// those of the last layer of its kind before them. Wants the layers' windows.
void read_shared_caches(const ConfigReader& config, ArchSpec& spec, int64_t fallback);

// embedding_size of encoders whose embeddings are summed up before they are projected to the hidden size.
void read_narrow_embeddings(const ConfigReader& config, ArchSpec& spec);
// How queries grow with their position, as Ministral 3 and Mistral 4 say it among the rotation's fields.
void read_query_growth(const ConfigReader& config, RopeSpec& turned);
// eos_token_id and bos_token_id.
void read_token_ids(const ConfigReader& config, ArchSpec& spec);

// Layers that are all alike: q.k is divided by scale_divisor.
void assign_layers(ArchSpec& spec, double scale_divisor);

// A name of transformers' activation table. Throws Error naming the field and the names that are supported.
Activation read_activation(const ConfigReader& config, std::string_view field, std::string_view fallback);

// Limits that no model comes near; they keep products of sizes within 64 bits.
inline constexpr int64_t kMaxSize = int64_t{1} << 24;
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxPositions = int64_t{1} << 30;

}  // namespace quire
