// Kimi Linear: Kimi delta attention (nn/delta_net.cc) in three of four layers, latent attention without RoPE
// in the fourth; experts as in DeepSeek-V3 after a dense layer.
#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// Names of the gates of Kimi delta attention in the published checkpoint, and those that transformers writes.
constexpr std::array<TensorName, 8> kKimiLinearNets = {{
    {delta_net::kGAProj, "layers.{}.self_attn.g_a_proj"},
    {recurrent::kGProj, "layers.{}.self_attn.g_b_proj"},
    {delta_net::kFAProj, "layers.{}.self_attn.f_a_proj"},
    {delta_net::kFAProj, "layers.{}.self_attn.forget_gate.f_a_proj"},
    {delta_net::kAProj, "layers.{}.self_attn.f_b_proj"},
    {delta_net::kAProj, "layers.{}.self_attn.forget_gate.f_b_proj"},
    {.params = recurrent::kDtBias, .module = "layers.{}.self_attn.dt_bias", .bare = true},
    {.params = recurrent::kALog, .module = "layers.{}.self_attn.A_log", .bare = true},
}};
constexpr std::array<TensorName, 1> kNetOut = {{{recurrent::kOutProj, "layers.{}.self_attn.o_proj"}}};
// transformers also writes the MLPs of dense layers with the module name of the experts.
constexpr std::array<TensorName, 7> kPublishedShared = {{
    {mlp::kGateProj, "layers.{}.block_sparse_moe.gate_proj"},
    {mlp::kUpProj, "layers.{}.block_sparse_moe.up_proj"},
    {mlp::kDownProj, "layers.{}.block_sparse_moe.down_proj"},
    {.params = moe::kCorrectionBias,
     .module = "layers.{}.block_sparse_moe.gate.e_score_correction_bias",
     .bare = true},
    {moe::kSharedGateProj, "layers.{}.block_sparse_moe.shared_experts.gate_proj"},
    {moe::kSharedUpProj, "layers.{}.block_sparse_moe.shared_experts.up_proj"},
    {moe::kSharedDownProj, "layers.{}.block_sparse_moe.shared_experts.down_proj"},
}};
constexpr auto kKimiLinearModules = joined(kLatentModel, kKimiLinearNets, kKimiDelta, kNetOut,
                                           kMixtralExperts, kDeepseekShared, kPublishedShared);

// The type of each layer. The published configuration lists them with numbers from 1.
std::vector<std::string> kimi_linear_read_kinds(const ConfigReader& config, const ModelSpec& spec,
                                                const ConfigReader& nets) {
  std::vector<std::string> kinds = config.texts("layer_types");
  if (!kinds.empty()) return kinds;
  const auto count = static_cast<size_t>(spec.num_layers());
  kinds.assign(count, "linear_attention");
  if (nets.has("full_attn_layers")) {
    for (const int64_t layer : nets.integers("full_attn_layers", 1, spec.num_layers()))
      kinds[static_cast<size_t>(layer - 1)] = "full_attention";
    return kinds;
  }
  for (size_t i = 4; i < count; i += 4) kinds[i] = "full_attention";
  return kinds;
}

// The published field if it is present, otherwise that of transformers.
std::string_view field_of(const ConfigReader& config, std::string_view field, std::string_view published) {
  return config.has(published) ? published : field;
}

}  // namespace

MoeSpec read_kimi_experts(const ConfigReader& config, const KimiExperts& defaults) {
  const ExpertFields fields = {.experts = "num_experts",
                               .chosen = field_of(config, "num_experts_per_tok", "num_experts_per_token"),
                               .default_experts = defaults.experts,
                               .default_chosen = 8,
                               .groups = field_of(config, "n_group", "num_expert_group"),
                               .normalize = field_of(config, "norm_topk_prob", "moe_renormalize"),
                               .default_groups = defaults.groups,
                               .default_topk_group = defaults.topk_group};
  MoeSpec moe =
      read_deepseek_experts(config, fields, field_of(config, "n_shared_experts", "num_shared_experts"));
  moe.router.routed_scaling_factor =
      static_cast<float>(config.number("routed_scaling_factor", -1e6, 1e6, defaults.scale));
  return moe;
}

void read_kimi_positions(const ConfigReader& config, ModelSpec& spec, int64_t fallback) {
  const std::string_view field = field_of(config, "max_position_embeddings", "model_max_length");
  spec.max_position_embeddings = config.integer(field, 1, kMaxPositions, fallback);
  spec.max_model_len = spec.max_position_embeddings;
}

namespace {

ModelSpec parse_kimi_linear(const ConfigReader& config) {
  ModelSpec spec = parse_latent_family(config, {.max_position_embeddings = 1048576, .norm_eps = 1e-5});
  read_kimi_positions(config, spec, 1048576);
  const ConfigReader nets = config.object("linear_attn_config");
  KimiDeltaSpec sizes = {.activation = first_mlp(spec).activation, .norm_eps = spec.norm.eps};
  const auto size = [&](std::string_view field, std::string_view other, int64_t high, int64_t fallback) {
    return static_cast<int32_t>(nets.integer(other, 1, high, config.integer(field, 1, high, fallback)));
  };
  sizes.heads = size("linear_num_heads", "num_heads", 1 << 16, 32);
  sizes.head_dim = size("linear_head_dim", "head_dim", 1 << 13, 128);
  sizes.conv_kernel = size("linear_conv_kernel_dim", "short_conv_kernel_size", kMaxConvKernel, 4);
  sizes.rank = sizes.head_dim;
  assign_mixers(config, spec, "layer_types", sizes, kimi_linear_read_kinds(config, spec, nets));
  set_rope(spec, kNoRope);
  const MoeSpec moe = read_kimi_experts(config, {.scale = 2.446});
  use_experts(spec, moe,
              sparse_layers(config, spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 1)));
  return spec;
}

WeightNames kimi_linear_weight_names() {
  return {kModelPrefixes, kKimiLinearModules, kSavedAngles};
}

}  // namespace

std::span<const Architecture> kimi_linear_architectures() {
  static constexpr std::array kRows = {
      Architecture{"KimiLinearForCausalLM", "kimi_linear", parse_kimi_linear, kimi_linear_weight_names},
  };
  return kRows;
}

}  // namespace quire
