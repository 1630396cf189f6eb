// Persimmon: LayerNorm, also of each query and key head, biases, a plain MLP of squared ReLUs, half of each
// head turns; queries, keys and values head by head in one matrix.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<ModuleName, 8> kBlocks = {{
    {Role::kEmbedding, "embed_tokens"},
    {.role = Role::kQkv, .module = "layers.{}.self_attn.query_key_value", .order = RowOrder::kByKvHead},
    {Role::kAttentionOut, "layers.{}.self_attn.dense"},
    {Role::kQueryNorm, "layers.{}.self_attn.q_layernorm"},
    {Role::kKeyNorm, "layers.{}.self_attn.k_layernorm"},
    {Role::kUp, "layers.{}.mlp.dense_h_to_4h"},
    {Role::kDown, "layers.{}.mlp.dense_4h_to_h"},
    {Role::kLmHead, "lm_head"},
}};
constexpr std::array<ModuleName, 1> kLastNorm = {{{Role::kFinalNorm, "final_layernorm"}}};
constexpr auto kModules = joined(kBlocks, kLlamaNorms, kLastNorm);

}  // namespace

ArchSpec parse_persimmon(const ConfigReader& config) {
  ArchSpec spec = read_sizes(config, {.default_positions = 16384});
  spec.norm_eps = static_cast<float>(config.number("layer_norm_eps", 0.0, 1.0, 1e-5));
  spec.activation = read_activation(config, "hidden_act", "relu2");
  spec.gated_mlp = false;
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = true;
  if (config.boolean("qk_layernorm", true)) {
    spec.qk_norm = QkNorm::kHeads;
    spec.qk_norm_kind = NormKind::kLayer;
    spec.qk_norm_bias = true;
  }
  read_rope(config, spec, {.partial = true, .part = 0.5});
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", false);
  return spec;
}

WeightNames persimmon_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
