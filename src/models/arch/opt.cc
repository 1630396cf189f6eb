// OPT: GPT-2 with ReLU, separate projections, and learned positions that begin at row 2.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 3> kPrefixes = {"model.decoder.", "decoder.", ""};

constexpr std::array<ModuleName, 16> kModules = {{
    {Role::kEmbedding, "embed_tokens"},
    {Role::kPositionEmbedding, "embed_positions"},
    {Role::kEmbeddingIn, "project_in"},
    {Role::kEmbeddingOut, "project_out"},
    {Role::kInputNorm, "layers.{}.self_attn_layer_norm"},
    {Role::kPostAttentionNorm, "layers.{}.self_attn_layer_norm"},
    {Role::kQuery, "layers.{}.self_attn.q_proj"},
    {Role::kKey, "layers.{}.self_attn.k_proj"},
    {Role::kValue, "layers.{}.self_attn.v_proj"},
    {Role::kAttentionOut, "layers.{}.self_attn.out_proj"},
    {Role::kMlpNorm, "layers.{}.final_layer_norm"},
    {Role::kPostMlpNorm, "layers.{}.final_layer_norm"},
    {Role::kUp, "layers.{}.fc1"},
    {Role::kDown, "layers.{}.fc2"},
    {Role::kFinalNorm, "final_layer_norm"},
    {Role::kLmHead, "lm_head"},
}};

}  // namespace

ArchSpec parse_opt(const ConfigReader& config) {
  ArchSpec spec = read_sizes(config, {.intermediate = "ffn_dim"});
  // OPT-350m has its norms behind the sums, and shorter vectors of the tokens.
  spec.sum_norms = !config.boolean("do_layer_norm_before", true);
  spec.input_norm = spec.mlp_norm = !spec.sum_norms;
  spec.final_norm = !spec.sum_norms && !config.boolean("_remove_final_layer_norm", false);
  const int64_t word = config.integer("word_embed_proj_dim", 1, spec.hidden_size, spec.hidden_size);
  if (word != spec.hidden_size) spec.embedding_size = word;
  spec.activation = read_activation(config, "activation_function", "relu");
  spec.gated_mlp = false;
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = config.boolean("enable_bias", true);
  spec.norm_eps = 1e-5F;
  spec.position = PositionKind::kLearned;
  spec.position_offset = 2;
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

WeightNames opt_weight_names() {
  return {kPrefixes, kModules, {}};
}

}  // namespace quire
