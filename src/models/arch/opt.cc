// OPT: GPT-2 with ReLU, separate projections, and learned positions that begin at row 2.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 3> kOptPrefixes = {"model.decoder.", "decoder.", ""};

constexpr std::array<TensorName, 16> kOptModules = {{
    {model::kEmbedTokens, "embed_tokens"},
    {model::kPositionEmbeddings, "embed_positions"},
    {model::kEmbedProjIn, "project_in"},
    {model::kEmbedProjOut, "project_out"},
    {layer::kInputNorm, "layers.{}.self_attn_layer_norm"},
    {layer::kPostAttentionNorm, "layers.{}.self_attn_layer_norm"},
    {attention::kQProj, "layers.{}.self_attn.q_proj"},
    {attention::kKProj, "layers.{}.self_attn.k_proj"},
    {attention::kVProj, "layers.{}.self_attn.v_proj"},
    {attention::kOProj, "layers.{}.self_attn.out_proj"},
    {layer::kMlpNorm, "layers.{}.final_layer_norm"},
    {layer::kPostMlpNorm, "layers.{}.final_layer_norm"},
    {mlp::kUpProj, "layers.{}.fc1"},
    {mlp::kDownProj, "layers.{}.fc2"},
    {model::kFinalNorm, "final_layer_norm"},
    {model::kLmHead, "lm_head"},
}};

ModelSpec parse_opt(const ConfigReader& config) {
  ModelSpec spec = read_sizes(config, {.intermediate = "ffn_dim"});
  // OPT-350m has post-LN and a factorized embedding (word_embed_proj_dim).
  const bool after_add = !config.boolean("do_layer_norm_before", true);
  set_norm(spec, {.kind = NormKind::kLayer, .eps = 1e-5F, .bias = true});
  if (after_add) place_norms(spec, NormPlace::kAfterAdd);
  if (after_add || config.boolean("_remove_final_layer_norm", false)) spec.final_norm.reset();
  const int64_t word = config.integer("word_embed_proj_dim", 1, spec.hidden_size, spec.hidden_size);
  if (word != spec.hidden_size) spec.embedding_size = word;
  set_activation(spec, read_activation(config, "activation_function", "relu"));
  set_all(spec, &MlpSpec::gated, false);
  set_biases(spec, config.boolean("enable_bias", true));
  spec.position = PositionKind::kLearned;
  spec.position_offset = 2;
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

WeightNames opt_weight_names() {
  return {kOptPrefixes, kOptModules, {}};
}

}  // namespace

std::span<const Architecture> opt_architectures() {
  static constexpr std::array kRows = {
      Architecture{"OPTForCausalLM", "opt", parse_opt, opt_weight_names},
  };
  return kRows;
}

}  // namespace quire
