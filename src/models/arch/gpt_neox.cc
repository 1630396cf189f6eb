// GPT-NeoX and Pythia: LayerNorm, biases, queries, keys and values head by head in one matrix, attention and
// MLP side by side, a quarter of each head turns.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes = {"gpt_neox.", ""};

constexpr std::array<ModuleName, 11> kModules = {{
    {Role::kEmbedding, "embed_in"},
    {Role::kInputNorm, "layers.{}.input_layernorm"},
    {.role = Role::kQkv, .module = "layers.{}.attention.query_key_value", .order = RowOrder::kByKvHead},
    {Role::kQkv, "layers.{}.attention.qkv_rows"},  // GGUF files have the rows in order
    {Role::kAttentionOut, "layers.{}.attention.dense"},
    {Role::kMlpNorm, "layers.{}.post_attention_layernorm"},
    {Role::kUp, "layers.{}.mlp.dense_h_to_4h"},
    {Role::kDown, "layers.{}.mlp.dense_4h_to_h"},
    {Role::kFinalNorm, "final_layer_norm"},
    {Role::kLmHead, "embed_out"},
    {Role::kLmHead, "lm_head"},
}};

// Causal masks and angle tables that old versions of transformers saved.
constexpr std::array<std::string_view, 3> kIgnored = {
    "layers.{}.attention.bias", "layers.{}.attention.masked_bias", "layers.{}.attention.rotary_emb.inv_freq"};

}  // namespace

ArchSpec parse_gpt_neox(const ConfigReader& config) {
  ArchSpec spec = read_sizes(config, {});
  spec.norm_eps = static_cast<float>(config.number("layer_norm_eps", 0.0, 1.0, 1e-5));
  spec.activation = read_activation(config, "hidden_act", "gelu");
  spec.gated_mlp = false;
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", true);
  spec.mlp_bias = true;
  spec.parallel_residual = config.boolean("use_parallel_residual", true);
  const double part = config.number("rotary_pct", 0.0, 1.0, 0.25);
  const double theta = config.number("rotary_emb_base", 1.0001, 1e15, 10000.0);
  read_rope(config, spec, {.theta = theta, .partial = true, .part = part});
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", false);
  return spec;
}

WeightNames gpt_neox_weight_names() {
  return {kPrefixes, kModules, kIgnored};
}

}  // namespace quire
