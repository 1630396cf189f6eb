// BERT and what grew out of it: encoders whose tokens see each other both ways, with norms behind the sums.
// RoBERTa and XLM-RoBERTa count positions from behind the padding token; GTE, Nomic and Jina v3 turn queries
// and keys in place of learned positions.
#include <cmath>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 8> kBertPrefixes = {
    "bert.", "roberta.", "distilbert.", "electra.", "data2vec_text.", "ernie.", "model.", ""};
constexpr std::array<ModuleName, 14> kBertModules = {{
    {Role::kEmbedding, "embeddings.word_embeddings"},
    {Role::kEmbeddingIn, "embeddings_project"},
    {Role::kPositionEmbedding, "embeddings.position_embeddings"},
    {Role::kTokenTypes, "embeddings.token_type_embeddings"},
    {Role::kTaskTypes, "embeddings.task_type_embeddings"},
    {Role::kEmbeddingNorm, "embeddings.LayerNorm"},
    {Role::kQuery, "encoder.layer.{}.attention.self.query"},
    {Role::kKey, "encoder.layer.{}.attention.self.key"},
    {Role::kValue, "encoder.layer.{}.attention.self.value"},
    {Role::kAttentionOut, "encoder.layer.{}.attention.output.dense"},
    {Role::kPostAttentionNorm, "encoder.layer.{}.attention.output.LayerNorm"},
    {Role::kUp, "encoder.layer.{}.intermediate.dense"},
    {Role::kDown, "encoder.layer.{}.output.dense"},
    {Role::kPostMlpNorm, "encoder.layer.{}.output.LayerNorm"},
}};
constexpr std::array<ModuleName, 11> kDistilBertModules = {{
    {Role::kEmbedding, "embeddings.word_embeddings"},
    {Role::kPositionEmbedding, "embeddings.position_embeddings"},
    {Role::kEmbeddingNorm, "embeddings.LayerNorm"},
    {Role::kQuery, "transformer.layer.{}.attention.q_lin"},
    {Role::kKey, "transformer.layer.{}.attention.k_lin"},
    {Role::kValue, "transformer.layer.{}.attention.v_lin"},
    {Role::kAttentionOut, "transformer.layer.{}.attention.out_lin"},
    {Role::kPostAttentionNorm, "transformer.layer.{}.sa_layer_norm"},
    {Role::kUp, "transformer.layer.{}.ffn.lin1"},
    {Role::kDown, "transformer.layer.{}.ffn.lin2"},
    {Role::kPostMlpNorm, "transformer.layer.{}.output_layer_norm"},
}};

// As transformers writes those that turn, and as their first files call it.
constexpr std::array<std::string_view, 6> kTurningPrefixes = {"nomic_bert.", "gte.",   "new.",
                                                              "roberta.",    "model.", ""};
constexpr std::array<ModuleName, 4> kTurningEmbeddings = {{
    {Role::kEmbedding, "embeddings.word_embeddings"},
    {Role::kTokenTypes, "embeddings.token_type_embeddings"},
    {Role::kEmbeddingNorm, "embeddings.LayerNorm"},
    {Role::kEmbeddingNorm, "emb_ln"},
}};
constexpr std::array<ModuleName, 6> kTurningLayers = {{
    {Role::kQuery, "layers.{}.self_attn.q_proj"},
    {Role::kKey, "layers.{}.self_attn.k_proj"},
    {Role::kValue, "layers.{}.self_attn.v_proj"},
    {Role::kAttentionOut, "layers.{}.self_attn.o_proj"},
    {Role::kPostAttentionNorm, "layers.{}.post_attention_layernorm"},
    {Role::kPostMlpNorm, "layers.{}.post_mlp_layernorm"},
}};
constexpr std::array<ModuleName, 3> kGatedMlp = {{
    {Role::kGate, "layers.{}.mlp.gate_proj"},
    {Role::kUp, "layers.{}.mlp.up_proj"},
    {Role::kDown, "layers.{}.mlp.down_proj"},
}};
constexpr std::array<ModuleName, 7> kFirstNomic = {{
    {Role::kQkv, "encoder.layers.{}.attn.Wqkv"},
    {Role::kAttentionOut, "encoder.layers.{}.attn.out_proj"},
    {Role::kPostAttentionNorm, "encoder.layers.{}.norm1"},
    {Role::kUp, "encoder.layers.{}.mlp.fc11"},
    {Role::kGate, "encoder.layers.{}.mlp.fc12"},
    {Role::kDown, "encoder.layers.{}.mlp.fc2"},
    {Role::kPostMlpNorm, "encoder.layers.{}.norm2"},
}};
constexpr std::array<ModuleName, 6> kFirstJina = {{
    {Role::kQkv, "encoder.layers.{}.mixer.Wqkv"},
    {Role::kAttentionOut, "encoder.layers.{}.mixer.out_proj"},
    {Role::kPostAttentionNorm, "encoder.layers.{}.norm1"},
    {Role::kUp, "encoder.layers.{}.mlp.fc1"},
    {Role::kDown, "encoder.layers.{}.mlp.fc2"},
    {Role::kPostMlpNorm, "encoder.layers.{}.norm2"},
}};
constexpr std::array<ModuleName, 6> kFirstGte = {{
    {Role::kQkv, "encoder.layer.{}.attention.qkv_proj"},
    {Role::kAttentionOut, "encoder.layer.{}.attention.o_proj"},
    {Role::kPostAttentionNorm, "encoder.layer.{}.attn_ln"},
    {.role = Role::kGateUp, .module = "encoder.layer.{}.mlp.up_gate_proj", .order = RowOrder::kUpFirst},
    {Role::kDown, "encoder.layer.{}.mlp.down_proj"},
    {Role::kPostMlpNorm, "encoder.layer.{}.mlp_ln"},
}};
constexpr std::array<ModuleName, 2> kPlainMlp = {{
    {Role::kUp, "layers.{}.mlp.fc1"},
    {Role::kDown, "layers.{}.mlp.fc2"},
}};
constexpr auto kNomicModules = joined(kTurningEmbeddings, kTurningLayers, kGatedMlp, kFirstNomic);
constexpr auto kGteModules = joined(kTurningEmbeddings, kTurningLayers, kGatedMlp, kFirstGte);
constexpr auto kJinaModules = joined(kTurningEmbeddings, kTurningLayers, kPlainMlp, kFirstJina);

constexpr std::array<std::string_view, 2> kSavedPositions = {"embeddings.position_ids",
                                                             "embeddings.token_type_ids"};

// What all of them have.
void make_encoder(const ConfigReader& config, ArchSpec& spec) {
  if (config.boolean("is_decoder", false)) config.fail("is_decoder", "true is not supported");
  spec.task = ModelTask::kEmbed;
  spec.bidirectional = true;
  spec.input_norm = spec.mlp_norm = spec.final_norm = false;
  spec.sum_norms = true;
  spec.embedding_norm = true;
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = true;
  spec.gated_mlp = false;
  spec.norm_eps = static_cast<float>(config.number("layer_norm_eps", 0.0, 1.0, 1e-12));
  spec.pooling = {PoolKind::kFirst};
  spec.tie_word_embeddings = true;
}

ClassifierSpec pooled_classifier() {
  return {.name = "classifier", .dense = "pooler.dense", .tanh = true, .bias = true};
}

void read_token_types(const ConfigReader& config, ArchSpec& spec, int64_t fallback) {
  spec.token_types = static_cast<int32_t>(config.integer("type_vocab_size", 0, 1024, fallback));
}

// As GTE's first files stretch positions: a larger base, and all angles smaller by one factor.
RopeSpec fixed_ntk(const ConfigReader& config, const ConfigReader& scaling, const ArchSpec& spec) {
  if (scaling.has("mixed_b")) scaling.fail("mixed_b", "is not supported");
  const double factor = scaling.number("factor", 1.0, 1e6);
  RopeSpec rope;
  rope.rotary_dim = spec.head_dim;
  rope.theta = config.number("rope_theta", 1.0001, 1e15, 160000.0) * factor;
  rope.scaling = RopeScaling::kLinear;
  rope.factor = std::pow(factor, 2.0 / spec.head_dim);
  return rope;
}

}  // namespace

ArchSpec parse_bert(const ConfigReader& config) {
  ArchSpec spec = read_sizes(config, {.default_positions = 512});
  make_encoder(config, spec);
  const std::string positions = config.text("position_embedding_type", "absolute");
  if (positions != "absolute") config.fail("position_embedding_type", "other than absolute is not supported");
  spec.activation = read_activation(config, "hidden_act", "gelu");
  spec.position = PositionKind::kLearned;
  read_token_types(config, spec, 2);
  spec.classifier = pooled_classifier();
  // ERNIE's. No request names a task, and the first one is what is meant then.
  if (config.boolean("use_task_id", false)) {
    spec.task_types = static_cast<int32_t>(config.integer("task_type_vocab_size", 1, 1024, 3));
    if (spec.token_types == 0) config.fail("use_task_id", "without token types is not supported");
  }
  return spec;
}

void read_narrow_embeddings(const ConfigReader& config, ArchSpec& spec) {
  const int64_t size = config.integer("embedding_size", 1, kMaxSize, 128);
  if (size > spec.hidden_size) config.fail("embedding_size", "is more than hidden_size");
  spec.embedding_size = size;
  spec.narrow_embeddings = true;
}

ArchSpec parse_electra(const ConfigReader& config) {
  ArchSpec spec = parse_bert(config);
  if (config.integer("embedding_size", 1, kMaxSize, 128) != spec.hidden_size)
    read_narrow_embeddings(config, spec);
  spec.classifier = ClassifierSpec{.name = "classifier.out_proj",
                                   .dense = "classifier.dense",
                                   .activation = Activation::kGelu,
                                   .bias = true};
  return spec;
}

ArchSpec parse_roberta(const ConfigReader& config) {
  ArchSpec spec = parse_bert(config);
  const int64_t padding = config.integer("pad_token_id", 0, spec.vocab_size - 1, 1);
  spec.position_offset = static_cast<int32_t>(padding + 1);
  spec.max_position_embeddings -= spec.position_offset;
  if (spec.max_position_embeddings < 1)
    config.fail("max_position_embeddings", "leaves no position for a token");
  spec.max_model_len = spec.max_position_embeddings;
  spec.classifier =
      ClassifierSpec{.name = "classifier.out_proj", .dense = "classifier.dense", .tanh = true, .bias = true};
  return spec;
}

ArchSpec parse_distilbert(const ConfigReader& config) {
  ArchSpec spec = read_sizes(config, {.hidden = "dim",
                                      .layers = "n_layers",
                                      .heads = "n_heads",
                                      .intermediate = "hidden_dim",
                                      .default_positions = 512});
  make_encoder(config, spec);
  spec.activation = read_activation(config, "activation", "gelu");
  spec.position = PositionKind::kLearned;
  spec.classifier = ClassifierSpec{
      .name = "classifier", .dense = "pre_classifier", .activation = Activation::kRelu, .bias = true};
  return spec;
}

ArchSpec parse_nomic_bert(const ConfigReader& config) {
  // The first files are written in GPT-2's words.
  const bool first = config.has("n_embd");
  ArchSpec spec = first ? read_sizes(config, {.hidden = "n_embd",
                                              .layers = "n_layer",
                                              .heads = "n_head",
                                              .intermediate = "n_inner",
                                              .positions = "n_positions"})
                        : read_sizes(config, {});
  make_encoder(config, spec);
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = false;
  spec.gated_mlp = true;
  if (first) {
    spec.norm_eps = static_cast<float>(config.number("layer_norm_epsilon", 0.0, 1.0, 1e-12));
    if (config.text("activation_function", "swiglu") != "swiglu")
      config.fail("activation_function", "other than swiglu is not supported");
    for (const char* field :
         {"qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "prenorm", "rotary_emb_interleaved"}) {
      if (config.boolean(field, false)) config.fail(field, "true is not supported");
    }
    spec.activation = Activation::kSilu;
    const double part = config.number("rotary_emb_fraction", 0.0, 1.0, 1.0);
    read_rope(
        config, spec,
        {.theta = config.number("rotary_emb_base", 1.0001, 1e15, 10000.0), .partial = true, .part = part});
  } else {
    spec.activation = read_activation(config, "hidden_act", "silu");
    read_rope(config, spec, {.theta = 1000.0});
  }
  read_token_types(config, spec, 2);
  spec.classifier = pooled_classifier();
  return spec;
}

ArchSpec parse_gte(const ConfigReader& config) {
  ArchSpec spec = read_sizes(config, {.default_positions = 8192});
  make_encoder(config, spec);
  // The first files say what was left open then.
  if (config.text("position_embedding_type", "rope") != "rope")
    config.fail("position_embedding_type", "other than rope is not supported");
  if (config.text("layer_norm_type", "layer_norm") != "layer_norm")
    config.fail("layer_norm_type", "other than layer_norm is not supported");
  if (config.boolean("logn_attention_scale", false)) config.fail("logn_attention_scale", "is not supported");
  spec.mlp_bias = false;
  spec.down_bias = true;
  spec.gated_mlp = true;
  spec.activation = read_activation(config, "hidden_act", "gelu");
  const ConfigReader scaling = config.object("rope_scaling");
  if (scaling.text("type", "") == "ntk") {
    spec.ropes = {fixed_ntk(config, scaling, spec)};
  } else {
    read_rope(config, spec, {.theta = 160000.0});
  }
  read_token_types(config, spec, 1);
  spec.classifier = pooled_classifier();
  return spec;
}

ArchSpec parse_jina_embeddings_v3(const ConfigReader& config) {
  ArchSpec spec = read_sizes(config, {.default_positions = 8194});
  make_encoder(config, spec);
  spec.norm_eps = static_cast<float>(config.number("layer_norm_eps", 0.0, 1.0, 1e-5));
  spec.activation = read_activation(config, "hidden_act", "gelu");
  read_rope(config, spec, {.theta = 20000.0});
  read_token_types(config, spec, 1);
  spec.classifier =
      ClassifierSpec{.name = "classifier.out_proj", .dense = "classifier.dense", .tanh = true, .bias = true};
  return spec;
}

WeightNames bert_weight_names() {
  return {kBertPrefixes, kBertModules, kSavedPositions};
}
WeightNames distilbert_weight_names() {
  return {kBertPrefixes, kDistilBertModules, kSavedPositions};
}
WeightNames nomic_bert_weight_names() {
  return {kTurningPrefixes, kNomicModules, kSavedAngles};
}
WeightNames gte_weight_names() {
  return {kTurningPrefixes, kGteModules, kSavedAngles};
}
WeightNames jina_embeddings_v3_weight_names() {
  return {kTurningPrefixes, kJinaModules, kSavedAngles};
}

}  // namespace quire
