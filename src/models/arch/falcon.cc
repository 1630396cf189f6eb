// Falcon: attention and MLP in parallel; queries, keys and values interleaved by key head in one matrix.
// Later models (new_decoder_architecture) have several key heads and separate norms for attention and MLP.
#include <cmath>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kFalconPrefixes = {"transformer.", ""};

constexpr std::array<TensorName, 12> kFalconModules = {{
    {model::kEmbedTokens, "word_embeddings"},
    {layer::kInputNorm, "h.{}.input_layernorm"},
    {layer::kInputNorm, "h.{}.ln_attn"},
    {.params = kQkvParams, .module = "h.{}.self_attention.query_key_value", .row_layout = qkv_by_kv_head},
    {kQkvParams, "h.{}.self_attention.qkv_rows"},  // GGUF files have the rows in order
    {attention::kOProj, "h.{}.self_attention.dense"},
    {layer::kMlpNorm, "h.{}.post_attention_layernorm"},
    {layer::kMlpNorm, "h.{}.ln_mlp"},
    {mlp::kUpProj, "h.{}.mlp.dense_h_to_4h"},
    {mlp::kDownProj, "h.{}.mlp.dense_4h_to_h"},
    {model::kFinalNorm, "ln_f"},
    {model::kLmHead, "lm_head"},
}};

ModelSpec parse_falcon(const ConfigReader& config) {
  ModelSpec spec = read_sizes(config, {.intermediate = "ffn_hidden_size"});
  const bool later = config.boolean("new_decoder_architecture", false);
  const bool multi_query = config.boolean("multi_query", true);
  set_all(spec, &AttentionSpec::num_kv_heads,
          later ? static_cast<int32_t>(
                      config.integer("num_kv_heads", 1, 1 << 16, first_attention(spec).num_heads))
          : multi_query ? 1
                        : first_attention(spec).num_heads);
  if (first_attention(spec).num_heads % first_attention(spec).num_kv_heads != 0)
    config.fail("num_kv_heads", "does not divide num_attention_heads");
  read_norm_eps(config, spec, "layer_norm_epsilon", 1e-5);
  set_activation(spec, read_activation(config, "activation", "gelu"));
  set_all(spec, &MlpSpec::gated, false);
  set_biases(spec, config.boolean("bias", false));
  spec.parallel_residual = later || config.boolean("parallel_attn", true);
  if (spec.parallel_residual && !(later && config.integer("num_ln_in_parallel_attn", 1, 2, 2) == 2))
    remove_mlp_norm(spec);
  if (config.boolean("alibi", false)) {
    // ALiBi is added before the scores are scaled.
    spec.position = PositionKind::kAlibi;
    spec.alibi_scale = 1.0 / std::sqrt(static_cast<double>(first_attention(spec).head_dim));
  } else {
    read_rope(config, spec, {});
  }
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

WeightNames falcon_weight_names() {
  return {kFalconPrefixes, kFalconModules, {}};
}

}  // namespace

std::span<const Architecture> falcon_architectures() {
  static constexpr std::array kRows = {
      Architecture{"FalconForCausalLM", "falcon", parse_falcon, falcon_weight_names},
  };
  return kRows;
}

}  // namespace quire
