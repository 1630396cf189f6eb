// ALBERT: BERT whose layers all have the same weights, with embeddings of fewer dimensions than the hidden
// states.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 3> kPrefixes = {"albert.", "model.", ""};
constexpr std::array<ModuleName, 13> kModules = {{
    {Role::kEmbedding, "embeddings.word_embeddings"},
    {Role::kPositionEmbedding, "embeddings.position_embeddings"},
    {Role::kTokenTypes, "embeddings.token_type_embeddings"},
    {Role::kEmbeddingNorm, "embeddings.LayerNorm"},
    {Role::kEmbeddingIn, "encoder.embedding_hidden_mapping_in"},
    {Role::kQuery, "encoder.albert_layer_groups.{}.albert_layers.0.attention.query"},
    {Role::kKey, "encoder.albert_layer_groups.{}.albert_layers.0.attention.key"},
    {Role::kValue, "encoder.albert_layer_groups.{}.albert_layers.0.attention.value"},
    {Role::kAttentionOut, "encoder.albert_layer_groups.{}.albert_layers.0.attention.dense"},
    {Role::kPostAttentionNorm, "encoder.albert_layer_groups.{}.albert_layers.0.attention.LayerNorm"},
    {Role::kUp, "encoder.albert_layer_groups.{}.albert_layers.0.ffn"},
    {Role::kDown, "encoder.albert_layer_groups.{}.albert_layers.0.ffn_output"},
    {Role::kPostMlpNorm, "encoder.albert_layer_groups.{}.albert_layers.0.full_layer_layer_norm"},
}};
// Heads of the training, and what old versions saved.
constexpr std::array<std::string_view, 4> kUnread = {"embeddings.position_ids", "embeddings.token_type_ids",
                                                     "predictions.*", "sop_classifier.*"};

}  // namespace

ArchSpec parse_albert(const ConfigReader& config) {
  ArchSpec spec = parse_bert(config);
  spec.activation = read_activation(config, "hidden_act", "gelu_new");
  for (const char* field : {"num_hidden_groups", "inner_group_num"}) {
    if (config.integer(field, 1, kMaxLayers, 1) != 1) config.fail(field, "other than 1 is not supported");
  }
  for (size_t i = 1; i < spec.layers.size(); ++i) spec.layers[i].weight_source = 0;
  read_narrow_embeddings(config, spec);
  spec.classifier = ClassifierSpec{.name = "classifier", .dense = "pooler", .tanh = true, .bias = true};
  return spec;
}

WeightNames albert_weight_names() {
  return {kPrefixes, kModules, kUnread};
}

}  // namespace quire
