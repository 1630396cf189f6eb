// Kimi Linear: three of four layers are Kimi delta attention (nn/kimi_delta.h), the fourth is latent
// attention that knows no positions; experts as in DeepSeek-V3 behind a dense layer.
#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// The gates of Kimi delta attention, as the published model and as transformers call them.
constexpr std::array<ModuleName, 8> kNets = {{
    {Role::kDeltaGateDown, "layers.{}.self_attn.g_a_proj"},
    {Role::kDeltaGate, "layers.{}.self_attn.g_b_proj"},
    {Role::kDeltaStepDown, "layers.{}.self_attn.f_a_proj"},
    {Role::kDeltaStepDown, "layers.{}.self_attn.forget_gate.f_a_proj"},
    {Role::kDeltaStep, "layers.{}.self_attn.f_b_proj"},
    {Role::kDeltaStep, "layers.{}.self_attn.forget_gate.f_b_proj"},
    {.role = Role::kStepBias, .module = "layers.{}.self_attn.dt_bias", .bare = true},
    {.role = Role::kRate, .module = "layers.{}.self_attn.A_log", .bare = true},
}};
constexpr std::array<ModuleName, 1> kNetOut = {{{Role::kStateOut, "layers.{}.self_attn.o_proj"}}};
// transformers writes dense layers' MLPs under the experts' name too.
constexpr std::array<ModuleName, 7> kPublishedShared = {{
    {Role::kGate, "layers.{}.block_sparse_moe.gate_proj"},
    {Role::kUp, "layers.{}.block_sparse_moe.up_proj"},
    {Role::kDown, "layers.{}.block_sparse_moe.down_proj"},
    {.role = Role::kRouterCorrection,
     .module = "layers.{}.block_sparse_moe.gate.e_score_correction_bias",
     .bare = true},
    {Role::kSharedExpertGate, "layers.{}.block_sparse_moe.shared_experts.gate_proj"},
    {Role::kSharedExpertUp, "layers.{}.block_sparse_moe.shared_experts.up_proj"},
    {Role::kSharedExpertDown, "layers.{}.block_sparse_moe.shared_experts.down_proj"},
}};
constexpr auto kModules =
    joined(kLatentModel, kNets, kKimiDelta, kNetOut, kMixtralExperts, kDeepseekShared, kPublishedShared);

// Which layers attend; the published configuration counts them from one.
std::vector<std::string> read_kinds(const ConfigReader& config, const ArchSpec& spec,
                                    const ConfigReader& nets) {
  std::vector<std::string> kinds = config.texts("layer_types");
  if (!kinds.empty()) return kinds;
  const auto count = static_cast<size_t>(spec.num_layers);
  kinds.assign(count, "linear_attention");
  if (nets.has("full_attn_layers")) {
    for (const int64_t layer : nets.integers("full_attn_layers", 1, spec.num_layers))
      kinds[static_cast<size_t>(layer - 1)] = "full_attention";
    return kinds;
  }
  for (size_t i = 4; i < count; i += 4) kinds[i] = "full_attention";
  return kinds;
}

// The published field where it is there, else transformers' own.
std::string_view field_of(const ConfigReader& config, std::string_view field, std::string_view published) {
  return config.has(published) ? published : field;
}

}  // namespace

MoeSpec& read_kimi_experts(const ConfigReader& config, ArchSpec& spec, const KimiExperts& defaults) {
  const ExpertFields fields = {.experts = "num_experts",
                               .chosen = field_of(config, "num_experts_per_tok", "num_experts_per_token"),
                               .default_experts = defaults.experts,
                               .default_chosen = 8,
                               .groups = field_of(config, "n_group", "num_expert_group"),
                               .normalize = field_of(config, "norm_topk_prob", "moe_renormalize"),
                               .default_groups = defaults.groups,
                               .default_chosen_groups = defaults.chosen_groups};
  MoeSpec& moe =
      read_deepseek_experts(config, spec, fields, field_of(config, "n_shared_experts", "num_shared_experts"));
  moe.router.scale = static_cast<float>(config.number("routed_scaling_factor", -1e6, 1e6, defaults.scale));
  return moe;
}

void read_kimi_positions(const ConfigReader& config, ArchSpec& spec, int64_t fallback) {
  const std::string_view field = field_of(config, "max_position_embeddings", "model_max_length");
  spec.max_position_embeddings = config.integer(field, 1, kMaxPositions, fallback);
  spec.max_model_len = spec.max_position_embeddings;
}

ArchSpec parse_kimi_linear(const ConfigReader& config) {
  ArchSpec spec = parse_latent_family(config, {.max_position_embeddings = 1048576});
  read_kimi_positions(config, spec, 1048576);
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  const ConfigReader nets = config.object("linear_attn_config");
  KimiDeltaSizes& sizes = spec.kimi_delta.emplace().sizes;
  const auto size = [&](std::string_view field, std::string_view other, int64_t most, int64_t fallback) {
    return static_cast<int32_t>(nets.integer(other, 1, most, config.integer(field, 1, most, fallback)));
  };
  sizes.heads = size("linear_num_heads", "num_heads", 1 << 16, 32);
  sizes.head_dim = size("linear_head_dim", "head_dim", 1 << 13, 128);
  sizes.taps = size("linear_conv_kernel_dim", "short_conv_kernel_size", kMaxConvTaps, 4);
  sizes.rank = sizes.head_dim;
  assign_mixers(config, spec, "layer_types", Recurrence::kKimiDelta, read_kinds(config, spec, nets));
  for (LayerSpec& layer : spec.layers) layer.rope = kNoRope;
  read_kimi_experts(config, spec, {.scale = 2.446});
  assign_experts(config, spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 1));
  return spec;
}

WeightNames kimi_linear_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
