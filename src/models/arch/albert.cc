// ALBERT: BERT with the same weights in all layers and a factorized embedding (embedding_size).
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 3> kAlbertPrefixes = {"albert.", "model.", ""};
constexpr std::array<TensorName, 13> kAlbertModules = {{
    {model::kEmbedTokens, "embeddings.word_embeddings"},
    {model::kPositionEmbeddings, "embeddings.position_embeddings"},
    {model::kTokenTypeEmbeddings, "embeddings.token_type_embeddings"},
    {model::kEmbedNorm, "embeddings.LayerNorm"},
    {model::kEmbedProjIn, "encoder.embedding_hidden_mapping_in"},
    {attention::kQProj, "encoder.albert_layer_groups.{}.albert_layers.0.attention.query"},
    {attention::kKProj, "encoder.albert_layer_groups.{}.albert_layers.0.attention.key"},
    {attention::kVProj, "encoder.albert_layer_groups.{}.albert_layers.0.attention.value"},
    {attention::kOProj, "encoder.albert_layer_groups.{}.albert_layers.0.attention.dense"},
    {layer::kPostAttentionNorm, "encoder.albert_layer_groups.{}.albert_layers.0.attention.LayerNorm"},
    {mlp::kUpProj, "encoder.albert_layer_groups.{}.albert_layers.0.ffn"},
    {mlp::kDownProj, "encoder.albert_layer_groups.{}.albert_layers.0.ffn_output"},
    {layer::kPostMlpNorm, "encoder.albert_layer_groups.{}.albert_layers.0.full_layer_layer_norm"},
}};
// Heads of the pre-training tasks, and tensors that old versions of transformers saved.
constexpr std::array<std::string_view, 4> kAlbertUnread = {
    "embeddings.position_ids", "embeddings.token_type_ids", "predictions.*", "sop_classifier.*"};

ModelSpec parse_albert(const ConfigReader& config) {
  ModelSpec spec = parse_bert(config);
  set_activation(spec, read_activation(config, "hidden_act", "gelu_new"));
  for (const char* field : {"num_hidden_groups", "inner_group_num"}) {
    if (config.integer(field, 1, kMaxLayers, 1) != 1) config.fail(field, "other than 1 is not supported");
  }
  for (size_t i = 1; i < spec.layers.size(); ++i) spec.layers[i].weight_sharing_layer = 0;
  read_projected_embeddings(config, spec);
  spec.classifier = ClassifierSpec{.name = "classifier", .dense = "pooler", .tanh = true, .bias = true};
  return spec;
}

WeightNames albert_weight_names() {
  return {kAlbertPrefixes, kAlbertModules, kAlbertUnread};
}

}  // namespace

std::span<const Architecture> albert_architectures() {
  static constexpr std::array kRows = {
      Architecture{"AlbertModel", "albert", parse_albert, albert_weight_names},
  };
  return kRows;
}

}  // namespace quire
