// LFM2: most layers are gated convolutions over a few tokens, the others attend, with norms on queries and
// keys. LFM3 also has layers with a window, norms behind what mixes and behind MLPs, and a gate for each
// head.
#include <array>
#include <string>
#include <vector>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 3> kAttention = {{
    {Role::kAttentionOut, "layers.{}.self_attn.out_proj"},
    {Role::kQueryNorm, "layers.{}.self_attn.q_layernorm"},
    {Role::kKeyNorm, "layers.{}.self_attn.k_layernorm"},
}};
constexpr std::array<ModuleName, 14> kRest = {{
    {Role::kEmbedding, "embed_tokens"},
    {Role::kInputNorm, "layers.{}.operator_norm"},
    {Role::kQuery, "layers.{}.self_attn.q_proj"},
    {Role::kKey, "layers.{}.self_attn.k_proj"},
    {Role::kValue, "layers.{}.self_attn.v_proj"},
    {Role::kStateIn, "layers.{}.conv.in_proj"},
    {Role::kStateConv, "layers.{}.conv.conv"},
    {Role::kStateOut, "layers.{}.conv.out_proj"},
    {Role::kMlpNorm, "layers.{}.ffn_norm"},
    {Role::kGate, "layers.{}.feed_forward.w1"},
    {Role::kUp, "layers.{}.feed_forward.w3"},
    {Role::kDown, "layers.{}.feed_forward.w2"},
    {Role::kFinalNorm, "embedding_norm"},
    {Role::kLmHead, "lm_head"},
}};
constexpr auto kModules = joined(kAttention, kRest);
// The gate as the hub's files and as transformers call it.
constexpr std::array<ModuleName, 5> kLfm3 = {{
    {Role::kAttentionOut, "layers.{}.self_attn.o_proj"},
    {Role::kQueryGate, "layers.{}.self_attn.gate_proj"},
    {Role::kQueryGate, "layers.{}.self_attn.g_proj"},
    {Role::kPostAttentionNorm, "layers.{}.post_operator_norm"},
    {Role::kPostMlpNorm, "layers.{}.post_ffn_norm"},
}};
constexpr auto kLfm3Modules = joined(kRest, kQkNorms, kLfm3);
constexpr std::array<ModuleName, 7> kLfmExperts = {{
    {Role::kRouter, "layers.{}.feed_forward.gate"},
    {.role = Role::kRouterCorrection, .module = "layers.{}.feed_forward.expert_bias", .bare = true},
    {Role::kExpertGate, "layers.{}.feed_forward.experts.{}.w1"},
    {Role::kExpertUp, "layers.{}.feed_forward.experts.{}.w3"},
    {Role::kExpertDown, "layers.{}.feed_forward.experts.{}.w2"},
    {.role = Role::kExpertGateUp, .module = "layers.{}.feed_forward.experts.gate_up_proj", .bare = true},
    {.role = Role::kExpertDown, .module = "layers.{}.feed_forward.experts.down_proj", .bare = true},
}};
constexpr auto kMoeModules = joined(kModules, kLfmExperts);

// What all of them have, but for the layers' kinds.
ArchSpec parse_family(const ConfigReader& config, const LlamaDefaults& defaults, int64_t taps) {
  const bool tied = config.boolean("tie_embedding", config.boolean("tie_word_embeddings", true));
  ArchSpec spec = parse_llama_family(config, defaults);
  spec.tie_word_embeddings = tied;
  spec.norm_eps = static_cast<float>(config.number("norm_eps", 0.0, 1.0, 1e-5));
  spec.qk_norm = QkNorm::kHeads;
  ShortConvSpec& conv = spec.short_conv.emplace();
  conv.sizes.channels = spec.hidden_size;
  conv.sizes.taps = static_cast<int32_t>(config.integer("conv_L_cache", 1, kMaxConvTaps, taps));
  conv.bias = config.boolean("conv_bias", false);
  return spec;
}

ArchSpec parse_convolutions(const ConfigReader& config, int64_t intermediate_size) {
  ArchSpec spec = parse_family(
      config,
      {.max_position_embeddings = 128000, .rope = {.theta = 1e6}, .intermediate_size = intermediate_size}, 3);
  std::vector<std::string> kinds = config.texts("layer_types");
  if (kinds.empty()) {
    const bool some = config.has("full_attn_idxs");
    kinds.assign(spec.layers.size(), some ? "conv" : "full_attention");
    for (const int64_t i : config.integers("full_attn_idxs", 0, spec.num_layers - 1))
      kinds[static_cast<size_t>(i)] = "full_attention";
  }
  assign_mixers(config, spec, "layer_types", Recurrence::kShortConv, kinds);
  return spec;
}

}  // namespace

ArchSpec parse_lfm2(const ConfigReader& config) {
  ArchSpec spec = parse_convolutions(config, 12288);
  int64_t size = config.integer("block_ff_dim", 1, kMaxSize, spec.intermediate_size);
  if (config.boolean("block_auto_adjust_ff_dim", true)) {
    size = 2 * size / 3;
    if (!config.mentions("block_ffn_dim_multiplier") || config.has("block_ffn_dim_multiplier")) {
      const double multiplier = config.number("block_ffn_dim_multiplier", 1e-3, 1e3, 1.0);
      const int64_t step = config.integer("block_multiple_of", 1, kMaxSize, 256);
      size = static_cast<int64_t>(multiplier * static_cast<double>(size));
      size = (size + step - 1) / step * step;
    }
  }
  spec.intermediate_size = size;
  return spec;
}

ArchSpec parse_lfm2_moe(const ConfigReader& config) {
  ArchSpec spec = parse_convolutions(config, 7168);
  MoeSpec& moe = read_experts(config, spec, {.default_experts = 32, .default_chosen = 4});
  moe.router.scores = RouterScores::kSigmoid;
  moe.router.normalize = config.boolean("norm_topk_prob", true);
  moe.router.scale = static_cast<float>(config.number("routed_scaling_factor", -1e6, 1e6, 1.0));
  moe.correction = config.boolean("use_expert_bias", true);
  const int64_t dense = config.integer("num_dense_layers", 0, kMaxLayers, 2);
  for (size_t i = 0; i < spec.layers.size(); ++i) spec.layers[i].experts = static_cast<int64_t>(i) >= dense;
  return spec;
}

ArchSpec parse_lfm3(const ConfigReader& config) {
  ArchSpec spec = parse_family(config,
                               {.head_dim = 128,
                                .max_position_embeddings = 128000,
                                .rope = {.theta = 1e6, .partial = true, .window_theta = 1e4},
                                .intermediate_size = 7680},
                               7);
  if (spec.ropes.size() != 2)
    config.fail("rope_parameters", "must have full_attention and sliding_attention");
  std::vector<std::string> kinds = config.texts("layer_types");
  for (int32_t i = 0; i < spec.num_layers && !config.has("layer_types"); ++i)
    kinds.emplace_back(i % 4 == 2 ? "full_attention" : i % 4 == 0 && i > 0 ? "sliding_attention" : "conv");
  std::vector<bool> sliding;
  for (std::string& kind : kinds) {
    sliding.push_back(kind == "sliding_attention");
    if (sliding.back()) kind = "full_attention";
  }
  assign_mixers(config, spec, "layer_types", Recurrence::kShortConv, kinds);
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 256));
  assign_windows(spec, sliding, window, 1, 0);
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.post_norms = config.boolean("use_sandwich_norm", true);
  spec.attention_gate = spec.attention_gate_heads = config.boolean("use_attention_gate", true);
  return spec;
}

WeightNames lfm2_weight_names() {
  return {kModelPrefixes, kModules, {}};
}
WeightNames lfm2_moe_weight_names() {
  return {kModelPrefixes, kMoeModules, {}};
}
WeightNames lfm3_weight_names() {
  return {kModelPrefixes, kLfm3Modules, {}};
}

}  // namespace quire
