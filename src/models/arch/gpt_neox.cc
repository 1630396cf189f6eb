// GPT-NeoX and Pythia: LayerNorm, biases, queries, keys and values interleaved by head in one matrix,
// attention and MLP in parallel, RoPE on a quarter of each head.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kGptNeoxPrefixes = {"gpt_neox.", ""};

constexpr std::array<TensorName, 11> kGptNeoxModules = {{
    {model::kEmbedTokens, "embed_in"},
    {layer::kInputNorm, "layers.{}.input_layernorm"},
    {.params = kQkvParams, .module = "layers.{}.attention.query_key_value", .row_layout = qkv_by_kv_head},
    {kQkvParams, "layers.{}.attention.qkv_rows"},  // GGUF files have the rows in order
    {attention::kOProj, "layers.{}.attention.dense"},
    {layer::kMlpNorm, "layers.{}.post_attention_layernorm"},
    {mlp::kUpProj, "layers.{}.mlp.dense_h_to_4h"},
    {mlp::kDownProj, "layers.{}.mlp.dense_4h_to_h"},
    {model::kFinalNorm, "final_layer_norm"},
    {model::kLmHead, "embed_out"},
    {model::kLmHead, "lm_head"},
}};

// Causal masks and RoPE tables that old versions of transformers saved.
constexpr std::array<std::string_view, 3> kGptNeoxIgnored = {
    "layers.{}.attention.bias", "layers.{}.attention.masked_bias", "layers.{}.attention.rotary_emb.inv_freq"};

ModelSpec parse_gpt_neox(const ConfigReader& config) {
  ModelSpec spec = read_sizes(config, {});
  read_norm_eps(config, spec, "layer_norm_eps", 1e-5);
  set_activation(spec, read_activation(config, "hidden_act", "gelu"));
  set_all(spec, &MlpSpec::gated, false);
  set_attention_bias(spec, config.boolean("attention_bias", true));
  set_all(spec, &MlpSpec::bias, true);
  spec.parallel_residual = config.boolean("use_parallel_residual", true);
  const double part = config.number("rotary_pct", 0.0, 1.0, 0.25);
  const double theta = config.number("rotary_emb_base", 1.0001, 1e15, 10000.0);
  read_rope(config, spec, {.theta = theta, .partial = true, .part = part});
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", false);
  return spec;
}

WeightNames gpt_neox_weight_names() {
  return {kGptNeoxPrefixes, kGptNeoxModules, kGptNeoxIgnored};
}

}  // namespace

std::span<const Architecture> gpt_neox_architectures() {
  static constexpr std::array kRows = {
      Architecture{"GPTNeoXForCausalLM", "gpt_neox", parse_gpt_neox, gpt_neox_weight_names},
  };
  return kRows;
}

}  // namespace quire
