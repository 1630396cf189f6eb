// BLOOM: linear biases instead of positions, a LayerNorm of the embeddings, queries, keys and values head by
// head in one matrix.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes = {"transformer.", ""};

constexpr std::array<ModuleName, 11> kModules = {{
    {Role::kEmbedding, "word_embeddings"},
    {Role::kEmbeddingNorm, "word_embeddings_layernorm"},
    {Role::kInputNorm, "h.{}.input_layernorm"},
    {.role = Role::kQkv, .module = "h.{}.self_attention.query_key_value", .order = RowOrder::kByKvHead},
    {Role::kQkv, "h.{}.self_attention.qkv_rows"},  // GGUF files have the rows in order
    {Role::kAttentionOut, "h.{}.self_attention.dense"},
    {Role::kMlpNorm, "h.{}.post_attention_layernorm"},
    {Role::kUp, "h.{}.mlp.dense_h_to_4h"},
    {Role::kDown, "h.{}.mlp.dense_4h_to_h"},
    {Role::kFinalNorm, "ln_f"},
    {Role::kLmHead, "lm_head"},
}};

}  // namespace

ArchSpec parse_bloom(const ConfigReader& config) {
  // Old configurations call the sizes otherwise.
  ArchSpec spec = read_sizes(config, {.hidden = config.has("n_embed") ? "n_embed" : "hidden_size",
                                      .layers = config.has("n_layer") ? "n_layer" : "num_hidden_layers",
                                      .heads = config.has("n_head") ? "n_head" : "num_attention_heads",
                                      .positions = "seq_length"});
  if (config.boolean("apply_residual_connection_post_layernorm", false))
    config.fail("apply_residual_connection_post_layernorm", "is not supported");
  spec.norm_eps = static_cast<float>(config.number("layer_norm_epsilon", 0.0, 1.0, 1e-5));
  spec.activation = Activation::kGeluTanh;
  spec.gated_mlp = false;
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = true;
  spec.embedding_norm = true;
  spec.position = PositionKind::kAlibi;
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

WeightNames bloom_weight_names() {
  return {kPrefixes, kModules, {}};
}

}  // namespace quire
