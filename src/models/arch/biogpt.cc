// BioGPT: OPT with other activations, whose embeddings are scaled.
#include <cmath>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes = {"biogpt.", ""};

constexpr std::array<ModuleName, 12> kModules = {{
    {Role::kEmbedding, "embed_tokens"},
    {Role::kPositionEmbedding, "embed_positions"},
    {Role::kInputNorm, "layers.{}.self_attn_layer_norm"},
    {Role::kQuery, "layers.{}.self_attn.q_proj"},
    {Role::kKey, "layers.{}.self_attn.k_proj"},
    {Role::kValue, "layers.{}.self_attn.v_proj"},
    {Role::kAttentionOut, "layers.{}.self_attn.out_proj"},
    {Role::kMlpNorm, "layers.{}.final_layer_norm"},
    {Role::kUp, "layers.{}.fc1"},
    {Role::kDown, "layers.{}.fc2"},
    {Role::kFinalNorm, "layer_norm"},
    {Role::kLmHead, "output_projection"},
}};
// Where it is the embedding once more.
constexpr std::array<std::string_view, 1> kTied = {"output_projection.weight"};

}  // namespace

ArchSpec parse_biogpt(const ConfigReader& config) {
  ArchSpec spec = read_sizes(config, {.default_positions = 1024});
  spec.activation = read_activation(config, "hidden_act", "gelu");
  spec.gated_mlp = false;
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = true;
  spec.norm_eps = 1e-5F;  // whatever layer_norm_eps says
  if (config.boolean("scale_embedding", true))
    spec.embedding_multiplier = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden_size)));
  spec.position = PositionKind::kLearned;
  spec.position_offset = 2;
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

WeightNames biogpt_weight_names() {
  return {kPrefixes, kModules, kTied};
}

}  // namespace quire
