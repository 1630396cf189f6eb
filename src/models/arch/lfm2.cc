// LFM2: gated short convolutions in most layers, attention with QK norm in the others. LFM3 also has sliding
// windows, norms after mixers and MLPs, and one output gate per head.
#include <array>
#include <string>
#include <vector>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 3> kAttention = {{
    {attention::kOProj, "layers.{}.self_attn.out_proj"},
    {attention::kQNorm, "layers.{}.self_attn.q_layernorm"},
    {attention::kKNorm, "layers.{}.self_attn.k_layernorm"},
}};
constexpr std::array<TensorName, 14> kLfm2Rest = {{
    {model::kEmbedTokens, "embed_tokens"},
    {layer::kInputNorm, "layers.{}.operator_norm"},
    {attention::kQProj, "layers.{}.self_attn.q_proj"},
    {attention::kKProj, "layers.{}.self_attn.k_proj"},
    {attention::kVProj, "layers.{}.self_attn.v_proj"},
    {recurrent::kInProj, "layers.{}.conv.in_proj"},
    {recurrent::kConv1d, "layers.{}.conv.conv"},
    {recurrent::kOutProj, "layers.{}.conv.out_proj"},
    {layer::kMlpNorm, "layers.{}.ffn_norm"},
    {mlp::kGateProj, "layers.{}.feed_forward.w1"},
    {mlp::kUpProj, "layers.{}.feed_forward.w3"},
    {mlp::kDownProj, "layers.{}.feed_forward.w2"},
    {model::kFinalNorm, "embedding_norm"},
    {model::kLmHead, "lm_head"},
}};
constexpr auto kLfm2Modules = joined(kAttention, kLfm2Rest);
// Names of the gate in published checkpoints, and those that transformers writes.
constexpr std::array<TensorName, 5> kLfm3 = {{
    {attention::kOProj, "layers.{}.self_attn.o_proj"},
    {attention::kOutputGate, "layers.{}.self_attn.gate_proj"},
    {attention::kOutputGate, "layers.{}.self_attn.g_proj"},
    {layer::kPostAttentionNorm, "layers.{}.post_operator_norm"},
    {layer::kPostMlpNorm, "layers.{}.post_ffn_norm"},
}};
constexpr auto kLfm3Modules = joined(kLfm2Rest, kQkNorms, kLfm3);
constexpr std::array<TensorName, 7> kLfmExperts = {{
    {moe::kRouter, "layers.{}.feed_forward.gate"},
    {.params = moe::kCorrectionBias, .module = "layers.{}.feed_forward.expert_bias", .bare = true},
    {moe::kExpertGateProj, "layers.{}.feed_forward.experts.{}.w1"},
    {moe::kExpertUpProj, "layers.{}.feed_forward.experts.{}.w3"},
    {moe::kExpertDownProj, "layers.{}.feed_forward.experts.{}.w2"},
    {.params = kExpertGateUpParams, .module = "layers.{}.feed_forward.experts.gate_up_proj", .bare = true},
    {.params = moe::kExpertDownProj, .module = "layers.{}.feed_forward.experts.down_proj", .bare = true},
}};
constexpr auto kLfm2MoeModules = joined(kLfm2Modules, kLfmExperts);

ShortConvSpec read_conv(const ConfigReader& config, const ModelSpec& spec, int64_t conv_kernel) {
  return {.channels = spec.hidden_size,
          .conv_kernel = static_cast<int32_t>(config.integer("conv_L_cache", 1, kMaxConvKernel, conv_kernel)),
          .bias = config.boolean("conv_bias", false)};
}

// The common part of all of them, without the types of layers.
ModelSpec parse_lfm2_family(const ConfigReader& config, const LlamaDefaults& defaults) {
  const bool tied = config.boolean("tie_embedding", config.boolean("tie_word_embeddings", true));
  ModelSpec spec = parse_llama_family(config, defaults);
  spec.tie_word_embeddings = tied;
  read_norm_eps(config, spec, "norm_eps", 1e-5);
  set_qk_norm(spec, QkNorm::kHeads);
  return spec;
}

ModelSpec parse_convolutions(const ConfigReader& config, int64_t intermediate_size) {
  ModelSpec spec = parse_lfm2_family(
      config,
      {.max_position_embeddings = 128000, .rope = {.theta = 1e6}, .intermediate_size = intermediate_size});
  std::vector<std::string> kinds = config.texts("layer_types");
  if (kinds.empty()) {
    const bool some = config.has("full_attn_idxs");
    kinds.assign(spec.layers.size(), some ? "conv" : "full_attention");
    for (const int64_t i : config.integers("full_attn_idxs", 0, spec.num_layers() - 1))
      kinds[static_cast<size_t>(i)] = "full_attention";
  }
  assign_mixers(config, spec, "layer_types", read_conv(config, spec, 3), kinds);
  return spec;
}

ModelSpec parse_lfm2(const ConfigReader& config) {
  ModelSpec spec = parse_convolutions(config, 12288);
  int64_t size = config.integer("block_ff_dim", 1, kMaxSize, first_mlp(spec).intermediate_size);
  if (config.boolean("block_auto_adjust_ff_dim", true)) {
    size = 2 * size / 3;
    if (!config.mentions("block_ffn_dim_multiplier") || config.has("block_ffn_dim_multiplier")) {
      const double multiplier = config.number("block_ffn_dim_multiplier", 1e-3, 1e3, 1.0);
      const int64_t step = config.integer("block_multiple_of", 1, kMaxSize, 256);
      size = static_cast<int64_t>(multiplier * static_cast<double>(size));
      size = (size + step - 1) / step * step;
    }
  }
  set_all(spec, &MlpSpec::intermediate_size, size);
  return spec;
}

ModelSpec parse_lfm2_moe(const ConfigReader& config) {
  ModelSpec spec = parse_convolutions(config, 7168);
  MoeSpec moe = read_experts(config, {.default_experts = 32, .default_chosen = 4});
  moe.router.scoring_func = ScoringFunc::kSigmoid;
  moe.router.norm_topk_prob = config.boolean("norm_topk_prob", true);
  moe.router.routed_scaling_factor =
      static_cast<float>(config.number("routed_scaling_factor", -1e6, 1e6, 1.0));
  moe.e_score_correction_bias = config.boolean("use_expert_bias", true);
  use_experts(spec, moe, layers_from(spec, config.integer("num_dense_layers", 0, kMaxLayers, 2)));
  return spec;
}

ModelSpec parse_lfm3(const ConfigReader& config) {
  ModelSpec spec = parse_lfm2_family(config, {.head_dim = 128,
                                              .max_position_embeddings = 128000,
                                              .rope = {.theta = 1e6, .partial = true, .window_theta = 1e4},
                                              .intermediate_size = 7680});
  if (spec.ropes.size() != 2)
    config.fail("rope_parameters", "must have full_attention and sliding_attention");
  std::vector<std::string> kinds = config.texts("layer_types");
  for (int32_t i = 0; i < spec.num_layers() && !config.has("layer_types"); ++i)
    kinds.emplace_back(i % 4 == 2 ? "full_attention" : i % 4 == 0 && i > 0 ? "sliding_attention" : "conv");
  std::vector<bool> sliding;
  for (std::string& kind : kinds) {
    sliding.push_back(kind == "sliding_attention");
    if (sliding.back()) kind = "full_attention";
  }
  assign_mixers(config, spec, "layer_types", read_conv(config, spec, 7), kinds);
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 256));
  assign_windows(spec, sliding, window, 1, 0);
  set_attention_bias(spec, config.boolean("attention_bias", false));
  if (config.boolean("use_sandwich_norm", true)) place_norms(spec, NormPlace::kBoth);
  if (config.boolean("use_attention_gate", true)) set_gates(spec, true);
  return spec;
}

WeightNames lfm2_weight_names() {
  return {kModelPrefixes, kLfm2Modules, {}};
}
WeightNames lfm2_moe_weight_names() {
  return {kModelPrefixes, kLfm2MoeModules, {}};
}
WeightNames lfm3_weight_names() {
  return {kModelPrefixes, kLfm3Modules, {}};
}

}  // namespace

std::span<const Architecture> lfm2_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Lfm2ForCausalLM", "lfm2", parse_lfm2, lfm2_weight_names},
      Architecture{"Lfm2MoeForCausalLM", "lfm2_moe", parse_lfm2_moe, lfm2_moe_weight_names},
      Architecture{"Lfm3ForCausalLM", "lfm3", parse_lfm3, lfm3_weight_names},
  };
  return kRows;
}

}  // namespace quire
