// LongCat-Flash: each layer of the file is two here, with latent attention and an MLP each. Beside the
// first's MLP stand experts, whose result joins behind the second's; some of them give what they are given.
#include <cmath>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 17> kSublayers = {{
    {Role::kInputNorm, "layers.{}.input_layernorm.{}"},
    {Role::kMlpNorm, "layers.{}.post_attention_layernorm.{}"},
    {Role::kQueryDown, "layers.{}.self_attn.{}.q_a_proj"},
    {Role::kQueryDownNorm, "layers.{}.self_attn.{}.q_a_layernorm"},
    {Role::kQuery, "layers.{}.self_attn.{}.q_b_proj"},
    {.role = Role::kLatent,
     .module = "layers.{}.self_attn.{}.kv_a_proj_with_mqa",
     .order = RowOrder::kTurnLast},
    {Role::kLatentNorm, "layers.{}.self_attn.{}.kv_a_layernorm"},
    {Role::kLatentUp, "layers.{}.self_attn.{}.kv_b_proj"},
    {Role::kAttentionOut, "layers.{}.self_attn.{}.o_proj"},
    {Role::kGate, "layers.{}.mlps.{}.gate_proj"},
    {Role::kUp, "layers.{}.mlps.{}.up_proj"},
    {Role::kDown, "layers.{}.mlps.{}.down_proj"},
    {Role::kRouter, "layers.{}.mlp.router.classifier"},
    {.role = Role::kRouterCorrection, .module = "layers.{}.mlp.router.e_score_correction_bias", .bare = true},
    {Role::kExpertGate, "layers.{}.mlp.experts.{}.gate_proj"},
    {Role::kExpertUp, "layers.{}.mlp.experts.{}.up_proj"},
    {Role::kExpertDown, "layers.{}.mlp.experts.{}.down_proj"},
}};
constexpr auto kModules = joined(kWords, kFinalNorm, kSublayers);
// Drafts, and matrices that transformers writes for experts that compute nothing.
constexpr std::array<std::string_view, 2> kUnread = {"mtp.*", "layers.{}.mlp.experts.*"};

}  // namespace

ArchSpec parse_longcat_flash(const ConfigReader& config) {
  ArchSpec spec = parse_latent_family(config, {.max_position_embeddings = 131072,
                                               .theta = 1e7,
                                               .intermediate_field = "ffn_hidden_size",
                                               .layers_field = "num_layers"});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  const MlaSizes& mla = *spec.mla;
  if (mla.query_rank == 0) config.fail("q_lora_rank", "is missing");
  // Short vectors grow as if they were as wide as the hidden states.
  const auto hidden = static_cast<double>(spec.hidden_size);
  spec.mla_latent_multiplier = static_cast<float>(std::sqrt(hidden / mla.latent));
  LayerSpec layer = spec.layers.front();
  layer.attention_scale *= static_cast<float>(std::sqrt(hidden / mla.query_rank));
  spec.num_layers *= 2;
  spec.layers.assign(static_cast<size_t>(spec.num_layers), layer);
  MoeSpec& moe = read_experts(config, spec,
                              {.experts = "n_routed_experts",
                               .chosen = "moe_topk",
                               .intermediate = "expert_ffn_hidden_size",
                               .default_experts = 512,
                               .default_chosen = 12});
  moe.idle_experts = static_cast<int32_t>(config.integer("zero_expert_num", 0, kMaxExperts, 256));
  if (config.text("zero_expert_type", "identity") != "identity")
    config.fail("zero_expert_type", "other than identity is not supported");
  moe.router_bias = config.boolean("router_bias", false);
  moe.router.normalize = config.boolean("norm_topk_prob", false);
  moe.router.scale = static_cast<float>(config.number("routed_scaling_factor", -1e6, 1e6, 6.0));
  moe.correction = true;
  for (size_t i = 0; i < spec.layers.size(); ++i)
    spec.layers[i].experts = spec.layers[i].shortcut = i % 2 == 0;
  return spec;
}

WeightNames longcat_flash_weight_names() {
  return {.prefixes = kModelPrefixes, .modules = kModules, .ignored = kUnread, .sublayers = 2};
}

}  // namespace quire
