// OLMo hybrid: gated delta nets in three of four layers, with a norm before them and before their MLP, OLMo
// 2's attention in the fourth. beta may be doubled (linear_allow_neg_eigval); the published model has no
// RoPE.
#include <algorithm>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// The names of norms and convolutions in the published checkpoint differ from those that transformers writes.
constexpr std::array<TensorName, 17> kOlmoHybridNets = {{
    {layer::kInputNorm, "layers.{}.attention_layer_norm"},
    {layer::kMlpNorm, "layers.{}.feedforward_layer_norm"},
    {layer::kPostAttentionNorm, "layers.{}.feedforward_layer_norm"},
    {delta_net::kQProj, "layers.{}.linear_attn.q_proj"},
    {delta_net::kKProj, "layers.{}.linear_attn.k_proj"},
    {delta_net::kVProj, "layers.{}.linear_attn.v_proj"},
    {recurrent::kGProj, "layers.{}.linear_attn.g_proj"},
    {delta_net::kBProj, "layers.{}.linear_attn.b_proj"},
    {delta_net::kAProj, "layers.{}.linear_attn.a_proj"},
    {kDeltaConvParams, "layers.{}.linear_attn.conv1d"},
    {delta_net::kQConv1d, "layers.{}.linear_attn.q_conv1d"},
    {delta_net::kKConv1d, "layers.{}.linear_attn.k_conv1d"},
    {delta_net::kVConv1d, "layers.{}.linear_attn.v_conv1d"},
    {.params = recurrent::kDtBias, .module = "layers.{}.linear_attn.dt_bias", .bare = true},
    {.params = recurrent::kALog, .module = "layers.{}.linear_attn.A_log", .bare = true},
    {recurrent::kNorm, "layers.{}.linear_attn.o_norm"},
    {recurrent::kOutProj, "layers.{}.linear_attn.o_proj"},
}};
constexpr auto kOlmoHybridModules =
    joined(kLlamaMatrices, kLlamaNorms, kPostNorms, kQkNorms, kOlmoHybridNets);

ModelSpec parse_olmo_hybrid(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.max_position_embeddings = 65536});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_qk_norm(spec, QkNorm::kFullProjection);
  const int32_t heads = first_attention(spec).num_heads;
  const auto key_dim = static_cast<int32_t>(3 * spec.hidden_size /
                                            (4 * config.integer("linear_num_key_heads", 1, 1 << 16, heads)));
  DeltaNetSpec delta_net = read_delta_net(
      config, spec,
      {.key_heads = heads,
       .value_heads = heads,
       .key_dim = key_dim,
       .value_dim = static_cast<int32_t>(2 * config.integer("linear_key_head_dim", 1, 1 << 13, key_dim))});
  delta_net.beta_scale = config.boolean("linear_allow_neg_eigval", true) ? 2.0F : 1.0F;
  delta_net.norm_eps = 1e-5F;  // regardless of rms_norm_eps
  assign_mixers(config, spec, "layer_types", delta_net,
                read_mixers(config, spec, std::min(4, spec.num_layers())));
  const ConfigReader rope = config.object("rope_parameters");
  const bool still = rope.mentions("rope_theta") && !rope.has("rope_theta");
  if (still) set_rope(spec, kNoRope);
  for (LayerSpec& layer : spec.layers) {
    if (attention_of(layer) != nullptr) place_norms(spec.norm, layer, NormPlace::kAfter);
  }
  return spec;
}

WeightNames olmo_hybrid_weight_names() {
  return {kModelPrefixes, kOlmoHybridModules, kDrafts};
}

}  // namespace

std::span<const Architecture> olmo_hybrid_architectures() {
  static constexpr std::array kRows = {
      Architecture{"OlmoHybridForCausalLM", "olmo_hybrid", parse_olmo_hybrid, olmo_hybrid_weight_names},
  };
  return kRows;
}

}  // namespace quire
