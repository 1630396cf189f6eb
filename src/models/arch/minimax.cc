// MiniMax-Text-01 and M1: Mixtral's experts, lightning attention (nn/lightning.cc) in most layers. Branches
// are added to the normalized hidden states that they read (postnorm).
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 4> kLightning = {{
    {.params = recurrent::kInProj, .module = "layers.{}.self_attn.qkv_proj", .row_layout = qkv_by_head},
    {recurrent::kGProj, "layers.{}.self_attn.output_gate"},
    {recurrent::kNorm, "layers.{}.self_attn.norm"},
    {recurrent::kOutProj, "layers.{}.self_attn.out_proj"},
}};
constexpr auto kMinimaxModules = joined(kLlamaMatrices, kLlamaNorms, kMixtralExperts, kLightning);
// Decays, which follow from the index of the layer.
constexpr std::array<std::string_view, 5> kMinimaxUnread = {
    "layers.{}.self_attn.slope_rate", "layers.{}.self_attn.query_decay", "layers.{}.self_attn.key_decay",
    "layers.{}.self_attn.diagonal_decay", "layers.{}.self_attn.rotary_emb.inv_freq"};

// The type of each layer. The first configurations have a list with 1 for softmax attention.
std::vector<std::string> read_mixers(const ConfigReader& config, const ModelSpec& spec) {
  const auto name = [](bool attends) { return attends ? "full_attention" : "linear_attention"; };
  std::vector<std::string> kinds = config.texts("layer_types");
  for (const int64_t attends : config.integers("attn_type_list", 0, 1))
    kinds.emplace_back(name(attends == 1));
  if (!kinds.empty()) return kinds;
  for (int32_t i = 0; i < spec.num_layers(); ++i) kinds.emplace_back(name(i % 2 == 0));
  return kinds;
}

ModelSpec parse_minimax(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(
      config, {.max_position_embeddings = 131072, .rope = {.theta = 1e6, .partial = true}, .norm_eps = 1e-5});
  RopeSpec& rope = spec.ropes.front();
  const int64_t rotary_dim = config.integer("rotary_dim", 2, first_attention(spec).head_dim, rope.rotary_dim);
  rope.rotary_dim = static_cast<int32_t>(rotary_dim / 2 * 2);
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 0));
  const AttentionSpec& attention = first_attention(spec);
  for_parts_of<AttentionSpec>(spec, [&](AttentionSpec& own) { own.params.window = window; });
  const LightningSpec lightning = {.heads = attention.num_heads,
                                   .head_dim = attention.head_dim,
                                   .activation = first_mlp(spec).activation,
                                   .norm = spec.norm};
  assign_mixers(config, spec, config.has("attn_type_list") ? "attn_type_list" : "layer_types", lightning,
                read_mixers(config, spec));

  const bool first = config.has("layernorm_mlp_alpha");  // field names of the first configurations
  if (first && !config.boolean("postnorm", false)) config.fail("postnorm", "false is not supported");
  if (config.integer("shared_intermediate_size", 0, kMaxSize, 0) != 0)
    config.fail("shared_intermediate_size", "other than 0 is not supported");
  const auto factor = [&](std::string_view name, std::string_view first_name) {
    return static_cast<float>(config.number(first ? first_name : name, -1e6, 1e6, 1.0));
  };
  for (LayerSpec& layer : spec.layers) {
    const bool attends = attention_of(layer) != nullptr;
    layer.mixer_branch.residual_multiplier =
        attends ? factor("full_attn_alpha_factor", "layernorm_full_attention_alpha")
                : factor("linear_attn_alpha_factor", "layernorm_linear_attention_alpha");
    layer.mixer_branch.multiplier =
        attends ? factor("full_attn_beta_factor", "layernorm_full_attention_beta")
                : factor("linear_attn_beta_factor", "layernorm_linear_attention_beta");
    layer.feed_forward_branch.residual_multiplier = factor("mlp_alpha_factor", "layernorm_mlp_alpha");
    layer.feed_forward_branch.multiplier = factor("mlp_beta_factor", "layernorm_mlp_beta");
  }
  spec.postnorm = true;
  const MoeSpec moe = read_mixtral_experts(config);
  use_experts(spec, moe);
  return spec;
}

WeightNames minimax_weight_names() {
  return {kModelPrefixes, kMinimaxModules, kMinimaxUnread};
}

}  // namespace

std::span<const Architecture> minimax_architectures() {
  static constexpr std::array kRows = {
      Architecture{"MiniMaxForCausalLM", "minimax", parse_minimax, minimax_weight_names},
      Architecture{"MiniMaxM1ForCausalLM", "minimax_m1", parse_minimax, minimax_weight_names},
      Architecture{"MiniMaxText01ForCausalLM", "minimax_text_01", parse_minimax, minimax_weight_names},
  };
  return kRows;
}

}  // namespace quire
