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

ModelDraft parse_gpt_neox(const ConfigReader& config) {
  ModelDraft spec = read_sizes(config, {});
  spec.norm_eps = static_cast<float>(config.number("layer_norm_eps", 0.0, 1.0, 1e-5));
  spec.activation = read_activation(config, "hidden_act", "gelu");
  spec.mlp.gated = false;
  spec.attention.qkv_bias = spec.attention.o_bias = config.boolean("attention_bias", true);
  spec.mlp.bias = true;
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
