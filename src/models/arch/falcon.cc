// Falcon: attention and MLP side by side; queries, keys and values in one matrix, by key head. The later ones
// (new_decoder_architecture) have several key heads and a norm for each side.
#include <cmath>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes = {"transformer.", ""};

constexpr std::array<ModuleName, 12> kModules = {{
    {Role::kEmbedding, "word_embeddings"},
    {Role::kInputNorm, "h.{}.input_layernorm"},
    {Role::kInputNorm, "h.{}.ln_attn"},
    {.role = Role::kQkv, .module = "h.{}.self_attention.query_key_value", .order = RowOrder::kByKvHead},
    {Role::kQkv, "h.{}.self_attention.qkv_rows"},  // GGUF files have the rows in order
    {Role::kAttentionOut, "h.{}.self_attention.dense"},
    {Role::kMlpNorm, "h.{}.post_attention_layernorm"},
    {Role::kMlpNorm, "h.{}.ln_mlp"},
    {Role::kUp, "h.{}.mlp.dense_h_to_4h"},
    {Role::kDown, "h.{}.mlp.dense_4h_to_h"},
    {Role::kFinalNorm, "ln_f"},
    {Role::kLmHead, "lm_head"},
}};

}  // namespace

ArchSpec parse_falcon(const ConfigReader& config) {
  ArchSpec spec = read_sizes(config, {.intermediate = "ffn_hidden_size"});
  const bool later = config.boolean("new_decoder_architecture", false);
  const bool multi_query = config.boolean("multi_query", true);
  spec.num_kv_heads = later ? static_cast<int32_t>(config.integer("num_kv_heads", 1, 1 << 16, spec.num_heads))
                      : multi_query ? 1
                                    : spec.num_heads;
  if (spec.num_heads % spec.num_kv_heads != 0)
    config.fail("num_kv_heads", "does not divide num_attention_heads");
  spec.norm_eps = static_cast<float>(config.number("layer_norm_epsilon", 0.0, 1.0, 1e-5));
  spec.activation = read_activation(config, "activation", "gelu");
  spec.gated_mlp = false;
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = config.boolean("bias", false);
  spec.parallel_residual = later || config.boolean("parallel_attn", true);
  spec.mlp_norm =
      !spec.parallel_residual || (later && config.integer("num_ln_in_parallel_attn", 1, 2, 2) == 2);
  if (config.boolean("alibi", false)) {
    // Biases are added before scores are scaled.
    spec.position = PositionKind::kAlibi;
    spec.alibi_scale = 1.0 / std::sqrt(static_cast<double>(spec.head_dim));
  } else {
    read_rope(config, spec, {});
  }
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

WeightNames falcon_weight_names() {
  return {kPrefixes, kModules, {}};
}

}  // namespace quire
