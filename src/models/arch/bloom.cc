// BLOOM: ALiBi, a LayerNorm of the embeddings, and queries, keys and values interleaved by head in one
// matrix.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kBloomPrefixes = {"transformer.", ""};

constexpr std::array<TensorName, 11> kBloomModules = {{
    {model::kEmbedTokens, "word_embeddings"},
    {model::kEmbedNorm, "word_embeddings_layernorm"},
    {layer::kInputNorm, "h.{}.input_layernorm"},
    {.params = kQkvParams, .module = "h.{}.self_attention.query_key_value", .row_layout = qkv_by_kv_head},
    {kQkvParams, "h.{}.self_attention.qkv_rows"},  // GGUF files have the rows in order
    {attention::kOProj, "h.{}.self_attention.dense"},
    {layer::kMlpNorm, "h.{}.post_attention_layernorm"},
    {mlp::kUpProj, "h.{}.mlp.dense_h_to_4h"},
    {mlp::kDownProj, "h.{}.mlp.dense_4h_to_h"},
    {model::kFinalNorm, "ln_f"},
    {model::kLmHead, "lm_head"},
}};

ModelSpec parse_bloom(const ConfigReader& config) {
  // Old configurations have other names for the sizes.
  ModelSpec spec = read_sizes(config, {.hidden = config.has("n_embed") ? "n_embed" : "hidden_size",
                                       .layers = config.has("n_layer") ? "n_layer" : "num_hidden_layers",
                                       .heads = config.has("n_head") ? "n_head" : "num_attention_heads",
                                       .positions = "seq_length"});
  if (config.boolean("apply_residual_connection_post_layernorm", false))
    config.fail("apply_residual_connection_post_layernorm", "is not supported");
  read_norm_eps(config, spec, "layer_norm_epsilon", 1e-5);
  set_activation(spec, Activation::kGeluTanh);
  set_all(spec, &MlpSpec::gated, false);
  set_biases(spec, true);
  spec.embedding_norm = true;
  spec.position = PositionKind::kAlibi;
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

WeightNames bloom_weight_names() {
  return {kBloomPrefixes, kBloomModules, {}};
}

}  // namespace

std::span<const Architecture> bloom_architectures() {
  static constexpr std::array kRows = {
      Architecture{"BloomForCausalLM", "bloom", parse_bloom, bloom_weight_names},
  };
  return kRows;
}

}  // namespace quire
