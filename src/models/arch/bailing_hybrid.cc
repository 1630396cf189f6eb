// Bailing hybrid (Ling 3.0): Kimi delta attention with full-rank output gates and decays, whose decay has a
// lower bound; in every sixth layer latent attention with one output gate per head; experts as in
// DeepSeek-V3.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// Names of Kimi delta attention that transformers writes, in addition to kKimiDelta, and those of the
// published checkpoint.
constexpr std::array<TensorName, 3> kBailingHybridNets = {{
    {recurrent::kGProj, "layers.{}.self_attn.g_proj"},
    {delta_net::kAProj, "layers.{}.self_attn.forget_gate.f_proj"},
    {recurrent::kOutProj, "layers.{}.self_attn.o_proj"},
}};
constexpr std::array<TensorName, 1> kGate = {{{mla::kOutputGate, "layers.{}.self_attn.g_proj"}}};
constexpr std::array<TensorName, 14> kPublishedNets = {{
    {delta_net::kQProj, "layers.{}.attention.q_proj"},
    {delta_net::kKProj, "layers.{}.attention.k_proj"},
    {delta_net::kVProj, "layers.{}.attention.v_proj"},
    {recurrent::kGProj, "layers.{}.attention.g_proj"},
    {delta_net::kAProj, "layers.{}.attention.f_proj"},
    {delta_net::kBProj, "layers.{}.attention.b_proj"},
    {.params = recurrent::kDtBias, .module = "layers.{}.attention.dt_bias", .bare = true},
    {.params = recurrent::kALog, .module = "layers.{}.attention.A_log", .bare = true},
    {delta_net::kQConv1d, "layers.{}.attention.q_conv1d"},
    {delta_net::kKConv1d, "layers.{}.attention.k_conv1d"},
    {delta_net::kVConv1d, "layers.{}.attention.v_conv1d"},
    {recurrent::kNorm, "layers.{}.attention.o_norm"},
    {recurrent::kOutProj, "layers.{}.attention.o_proj"},
    {recurrent::kOutProj, "layers.{}.attention.dense"},
}};
constexpr std::array<TensorName, 9> kPublishedAttention = {{
    {model::kEmbedTokens, "word_embeddings"},
    {mla::kQProj, "layers.{}.attention.q_proj"},
    {.params = mla::kKvAProj,
     .module = "layers.{}.attention.kv_a_proj_with_mqa",
     .row_layout = rope_after_latent},
    {mla::kKvANorm, "layers.{}.attention.kv_a_layernorm"},
    {mla::kKvBProj, "layers.{}.attention.kv_b_proj"},
    {mla::kOutputGate, "layers.{}.attention.g_proj"},
    {mla::kOProj, "layers.{}.attention.o_proj"},
    {mla::kOProj, "layers.{}.attention.dense"},
    {.params = moe::kCorrectionBias, .module = "layers.{}.mlp.gate.expert_bias", .bare = true},
}};
constexpr auto kBailingHybridModules =
    joined(kLatentModel, kGate, kKimiDelta, kBailingHybridNets, kMoeExperts, kDeepseekShared,
           kPublishedAttention, kPublishedNets);

ModelSpec parse_bailing_hybrid(const ConfigReader& config) {
  ModelSpec spec = parse_latent_family(config, {.max_position_embeddings = 262144, .theta = 6e6});
  read_kimi_positions(config, spec, 262144);
  set_all(spec, &MlaSpec::gated, true);
  KimiDeltaSpec nets = {.activation = first_mlp(spec).activation, .norm_eps = spec.norm.eps};
  const auto size = [&](std::string_view own, std::string_view field, int64_t high, int64_t fallback) {
    return static_cast<int32_t>(config.integer(own, 1, high, config.integer(field, 1, high, fallback)));
  };
  nets.heads = size("linear_num_heads", "num_attention_heads", 1 << 16, 32);
  nets.head_dim = size("linear_head_dim", "head_dim", 1 << 13, 128);
  nets.conv_kernel = size("linear_conv_kernel_dim", "short_conv_kernel_size", kMaxConvKernel, 4);
  if (config.boolean("kda_safe_gate", true))
    nets.lower_bound = static_cast<float>(config.number("kda_lower_bound", -1e6, -1e-6, -5.0));
  assign_mixers(config, spec, "layer_types", nets,
                read_mixers(config, spec, config.integer("layer_group_size", 1, kMaxLayers, 6)));
  const MoeSpec moe = read_kimi_experts(config, {.experts = 512, .groups = 8, .topk_group = 4, .scale = 2.5});
  use_experts(spec, moe,
              sparse_layers(config, spec, config.integer("first_k_dense_replace", 0, kMaxLayers, 2)));
  return spec;
}

WeightNames bailing_hybrid_weight_names() {
  return {kModelPrefixes, kBailingHybridModules, kSavedAngles, true};
}

}  // namespace

std::span<const Architecture> bailing_hybrid_architectures() {
  static constexpr std::array kRows = {
      Architecture{"BailingHybridForCausalLM", "bailing_hybrid", parse_bailing_hybrid,
                   bailing_hybrid_weight_names},
  };
  return kRows;
}

}  // namespace quire
