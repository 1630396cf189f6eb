// Bailing hybrid (Ling 3.0): Kimi delta attention whose gates and steps are made of the hidden states at once
// and whose fading has a bound, in every sixth layer latent attention with a gate for each head; experts as
// in DeepSeek-V3.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// As transformers calls what stands in attention's place beside kKimiDelta, and as the published model calls
// it all.
constexpr std::array<ModuleName, 3> kNets = {{
    {Role::kDeltaGate, "layers.{}.self_attn.g_proj"},
    {Role::kDeltaStep, "layers.{}.self_attn.forget_gate.f_proj"},
    {Role::kStateOut, "layers.{}.self_attn.o_proj"},
}};
constexpr std::array<ModuleName, 1> kGate = {{{Role::kQueryGate, "layers.{}.self_attn.g_proj"}}};
constexpr std::array<ModuleName, 14> kPublishedNets = {{
    {Role::kDeltaQuery, "layers.{}.attention.q_proj"},
    {Role::kDeltaKey, "layers.{}.attention.k_proj"},
    {Role::kDeltaValue, "layers.{}.attention.v_proj"},
    {Role::kDeltaGate, "layers.{}.attention.g_proj"},
    {Role::kDeltaStep, "layers.{}.attention.f_proj"},
    {Role::kDeltaShare, "layers.{}.attention.b_proj"},
    {.role = Role::kStepBias, .module = "layers.{}.attention.dt_bias", .bare = true},
    {.role = Role::kRate, .module = "layers.{}.attention.A_log", .bare = true},
    {Role::kStateConvQuery, "layers.{}.attention.q_conv1d"},
    {Role::kStateConvKey, "layers.{}.attention.k_conv1d"},
    {Role::kStateConvValue, "layers.{}.attention.v_conv1d"},
    {Role::kStateNorm, "layers.{}.attention.o_norm"},
    {Role::kStateOut, "layers.{}.attention.o_proj"},
    {Role::kStateOut, "layers.{}.attention.dense"},
}};
constexpr std::array<ModuleName, 9> kPublishedAttention = {{
    {Role::kEmbedding, "word_embeddings"},
    {Role::kQuery, "layers.{}.attention.q_proj"},
    {.role = Role::kLatent, .module = "layers.{}.attention.kv_a_proj_with_mqa", .order = RowOrder::kTurnLast},
    {Role::kLatentNorm, "layers.{}.attention.kv_a_layernorm"},
    {Role::kLatentUp, "layers.{}.attention.kv_b_proj"},
    {Role::kQueryGate, "layers.{}.attention.g_proj"},
    {Role::kAttentionOut, "layers.{}.attention.o_proj"},
    {Role::kAttentionOut, "layers.{}.attention.dense"},
    {.role = Role::kRouterCorrection, .module = "layers.{}.mlp.gate.expert_bias", .bare = true},
}};
constexpr auto kModules = joined(kLatentModel, kGate, kKimiDelta, kNets, kExperts, kDeepseekShared,
                                 kPublishedAttention, kPublishedNets);

}  // namespace

ArchSpec parse_bailing_hybrid(const ConfigReader& config) {
  ArchSpec spec = parse_latent_family(config, {.max_position_embeddings = 262144, .theta = 6e6});
  read_kimi_positions(config, spec, 262144);
  spec.mla->gated = true;
  KimiDeltaSpec& nets = spec.kimi_delta.emplace();
  const auto size = [&](std::string_view own, std::string_view field, int64_t most, int64_t fallback) {
    return static_cast<int32_t>(config.integer(own, 1, most, config.integer(field, 1, most, fallback)));
  };
  nets.sizes.heads = size("linear_num_heads", "num_attention_heads", 1 << 16, 32);
  nets.sizes.head_dim = size("linear_head_dim", "head_dim", 1 << 13, 128);
  nets.sizes.taps = size("linear_conv_kernel_dim", "short_conv_kernel_size", kMaxConvTaps, 4);
  if (config.boolean("kda_safe_gate", true))
    nets.bound = static_cast<float>(config.number("kda_lower_bound", -1e6, -1e-6, -5.0));
  assign_mixers(config, spec, "layer_types", Recurrence::kKimiDelta,
                read_mixers(config, spec, config.integer("layer_group_size", 1, kMaxLayers, 6)));
  read_kimi_experts(config, spec, {.experts = 512, .groups = 8, .chosen_groups = 4, .scale = 2.5});
  assign_experts(config, spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 2));
  return spec;
}

WeightNames bailing_hybrid_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles, true};
}

}  // namespace quire
