// OLMo hybrid: three of four layers are gated delta nets with a norm before them and one before their MLP,
// the fourth is OLMo 2's. What the nets take up may count twice; the published model knows no positions.
#include <algorithm>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// The published model and what transformers writes differ in norms and convolutions.
constexpr std::array<ModuleName, 17> kNets = {{
    {Role::kInputNorm, "layers.{}.attention_layer_norm"},
    {Role::kMlpNorm, "layers.{}.feedforward_layer_norm"},
    {Role::kPostAttentionNorm, "layers.{}.feedforward_layer_norm"},
    {Role::kDeltaQuery, "layers.{}.linear_attn.q_proj"},
    {Role::kDeltaKey, "layers.{}.linear_attn.k_proj"},
    {Role::kDeltaValue, "layers.{}.linear_attn.v_proj"},
    {Role::kDeltaGate, "layers.{}.linear_attn.g_proj"},
    {Role::kDeltaShare, "layers.{}.linear_attn.b_proj"},
    {Role::kDeltaStep, "layers.{}.linear_attn.a_proj"},
    {Role::kStateConv, "layers.{}.linear_attn.conv1d"},
    {Role::kStateConvQuery, "layers.{}.linear_attn.q_conv1d"},
    {Role::kStateConvKey, "layers.{}.linear_attn.k_conv1d"},
    {Role::kStateConvValue, "layers.{}.linear_attn.v_conv1d"},
    {.role = Role::kStepBias, .module = "layers.{}.linear_attn.dt_bias", .bare = true},
    {.role = Role::kRate, .module = "layers.{}.linear_attn.A_log", .bare = true},
    {Role::kStateNorm, "layers.{}.linear_attn.o_norm"},
    {Role::kStateOut, "layers.{}.linear_attn.o_proj"},
}};
constexpr auto kModules = joined(kLlamaMatrices, kLlamaNorms, kPostNorms, kQkNorms, kNets);

}  // namespace

ArchSpec parse_olmo_hybrid(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.max_position_embeddings = 65536});
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  spec.qk_norm = QkNorm::kWhole;
  const int32_t heads = spec.num_heads;
  const auto key_dim = static_cast<int32_t>(3 * spec.hidden_size /
                                            (4 * config.integer("linear_num_key_heads", 1, 1 << 16, heads)));
  read_delta_net(
      config, spec,
      {.key_heads = heads,
       .value_heads = heads,
       .key_dim = key_dim,
       .value_dim = static_cast<int32_t>(2 * config.integer("linear_key_head_dim", 1, 1 << 13, key_dim))});
  spec.delta_net->share = config.boolean("linear_allow_neg_eigval", true) ? 2.0F : 1.0F;
  spec.delta_net->norm_eps = 1e-5F;  // whatever the other norms have
  assign_mixers(config, spec, "layer_types", Recurrence::kDeltaNet,
                read_mixers(config, spec, std::min(4, spec.num_layers)));
  const ConfigReader rope = config.object("rope_parameters");
  const bool still = rope.mentions("rope_theta") && !rope.has("rope_theta");
  spec.post_norms = true;
  for (LayerSpec& layer : spec.layers) {
    layer.input_norm = layer.mlp_norm = !layer.attention;
    layer.post_norms = layer.attention;
    if (still) layer.rope = kNoRope;
  }
  return spec;
}

WeightNames olmo_hybrid_weight_names() {
  return {kModelPrefixes, kModules, kDrafts};
}

}  // namespace quire
