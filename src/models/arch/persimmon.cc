// Persimmon: LayerNorm, also over each query and key head, biases, an ungated MLP with squared ReLU, RoPE on
// half of each head; queries, keys and values interleaved by head in one matrix.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 8> kBlocks = {{
    {model::kEmbedTokens, "embed_tokens"},
    {.params = kQkvParams, .module = "layers.{}.self_attn.query_key_value", .row_layout = qkv_by_kv_head},
    {attention::kOProj, "layers.{}.self_attn.dense"},
    {attention::kQNorm, "layers.{}.self_attn.q_layernorm"},
    {attention::kKNorm, "layers.{}.self_attn.k_layernorm"},
    {mlp::kUpProj, "layers.{}.mlp.dense_h_to_4h"},
    {mlp::kDownProj, "layers.{}.mlp.dense_4h_to_h"},
    {model::kLmHead, "lm_head"},
}};
constexpr std::array<TensorName, 1> kLastNorm = {{{model::kFinalNorm, "final_layernorm"}}};
constexpr auto kPersimmonModules = joined(kBlocks, kLlamaNorms, kLastNorm);

ModelDraft parse_persimmon(const ConfigReader& config) {
  ModelDraft spec = read_sizes(config, {.default_positions = 16384});
  spec.norm_eps = static_cast<float>(config.number("layer_norm_eps", 0.0, 1.0, 1e-5));
  spec.activation = read_activation(config, "hidden_act", "relu2");
  spec.mlp.gated = false;
  spec.attention.qkv_bias = spec.attention.o_bias = spec.mlp.bias = true;
  if (config.boolean("qk_layernorm", true)) {
    spec.attention.qk_norm = QkNorm::kHeads;
    spec.attention.qk_norm_spec.kind = NormKind::kLayer;
    spec.attention.qk_norm_spec.bias = true;
  }
  read_rope(config, spec, {.partial = true, .part = 0.5});
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", false);
  return spec;
}

WeightNames persimmon_weight_names() {
  return {kModelPrefixes, kPersimmonModules, kSavedAngles};
}

}  // namespace

std::span<const Architecture> persimmon_architectures() {
  static constexpr std::array kRows = {
      Architecture{"PersimmonForCausalLM", "persimmon", parse_persimmon, persimmon_weight_names},
  };
  return kRows;
}

}  // namespace quire
