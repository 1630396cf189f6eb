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

ModelSpec parse_persimmon(const ConfigReader& config) {
  ModelSpec spec = read_sizes(config, {.default_positions = 16384});
  read_norm_eps(config, spec, "layer_norm_eps", 1e-5);
  set_activation(spec, read_activation(config, "hidden_act", "relu2"));
  set_all(spec, &MlpSpec::gated, false);
  set_biases(spec, true);
  if (config.boolean("qk_layernorm", true)) set_qk_norm(spec, QkNorm::kHeads, NormKind::kLayer, true);
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
