// BERT and its successors: encoders with bidirectional attention and post-LN. In RoBERTa and XLM-RoBERTa
// positions begin after the padding token; GTE, Nomic and Jina v3 have RoPE instead of learned positions.
#include <cmath>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 8> kBertPrefixes = {
    "bert.", "roberta.", "distilbert.", "electra.", "data2vec_text.", "ernie.", "model.", ""};
constexpr std::array<TensorName, 14> kBertModules = {{
    {model::kEmbedTokens, "embeddings.word_embeddings"},
    {model::kEmbedProjIn, "embeddings_project"},
    {model::kPositionEmbeddings, "embeddings.position_embeddings"},
    {model::kTokenTypeEmbeddings, "embeddings.token_type_embeddings"},
    {model::kTaskTypeEmbeddings, "embeddings.task_type_embeddings"},
    {model::kEmbedNorm, "embeddings.LayerNorm"},
    {attention::kQProj, "encoder.layer.{}.attention.self.query"},
    {attention::kKProj, "encoder.layer.{}.attention.self.key"},
    {attention::kVProj, "encoder.layer.{}.attention.self.value"},
    {attention::kOProj, "encoder.layer.{}.attention.output.dense"},
    {layer::kPostAttentionNorm, "encoder.layer.{}.attention.output.LayerNorm"},
    {mlp::kUpProj, "encoder.layer.{}.intermediate.dense"},
    {mlp::kDownProj, "encoder.layer.{}.output.dense"},
    {layer::kPostMlpNorm, "encoder.layer.{}.output.LayerNorm"},
}};
constexpr std::array<TensorName, 11> kDistilBertModules = {{
    {model::kEmbedTokens, "embeddings.word_embeddings"},
    {model::kPositionEmbeddings, "embeddings.position_embeddings"},
    {model::kEmbedNorm, "embeddings.LayerNorm"},
    {attention::kQProj, "transformer.layer.{}.attention.q_lin"},
    {attention::kKProj, "transformer.layer.{}.attention.k_lin"},
    {attention::kVProj, "transformer.layer.{}.attention.v_lin"},
    {attention::kOProj, "transformer.layer.{}.attention.out_lin"},
    {layer::kPostAttentionNorm, "transformer.layer.{}.sa_layer_norm"},
    {mlp::kUpProj, "transformer.layer.{}.ffn.lin1"},
    {mlp::kDownProj, "transformer.layer.{}.ffn.lin2"},
    {layer::kPostMlpNorm, "transformer.layer.{}.output_layer_norm"},
}};

// Prefixes of the models with RoPE, as transformers writes them and in the first published checkpoints.
constexpr std::array<std::string_view, 6> kTurningPrefixes = {"nomic_bert.", "gte.",   "new.",
                                                              "roberta.",    "model.", ""};
constexpr std::array<TensorName, 4> kTurningEmbeddings = {{
    {model::kEmbedTokens, "embeddings.word_embeddings"},
    {model::kTokenTypeEmbeddings, "embeddings.token_type_embeddings"},
    {model::kEmbedNorm, "embeddings.LayerNorm"},
    {model::kEmbedNorm, "emb_ln"},
}};
constexpr std::array<TensorName, 6> kTurningLayers = {{
    {attention::kQProj, "layers.{}.self_attn.q_proj"},
    {attention::kKProj, "layers.{}.self_attn.k_proj"},
    {attention::kVProj, "layers.{}.self_attn.v_proj"},
    {attention::kOProj, "layers.{}.self_attn.o_proj"},
    {layer::kPostAttentionNorm, "layers.{}.post_attention_layernorm"},
    {layer::kPostMlpNorm, "layers.{}.post_mlp_layernorm"},
}};
constexpr std::array<TensorName, 3> kGatedMlp = {{
    {mlp::kGateProj, "layers.{}.mlp.gate_proj"},
    {mlp::kUpProj, "layers.{}.mlp.up_proj"},
    {mlp::kDownProj, "layers.{}.mlp.down_proj"},
}};
constexpr std::array<TensorName, 7> kFirstNomic = {{
    {kQkvParams, "encoder.layers.{}.attn.Wqkv"},
    {attention::kOProj, "encoder.layers.{}.attn.out_proj"},
    {layer::kPostAttentionNorm, "encoder.layers.{}.norm1"},
    {mlp::kUpProj, "encoder.layers.{}.mlp.fc11"},
    {mlp::kGateProj, "encoder.layers.{}.mlp.fc12"},
    {mlp::kDownProj, "encoder.layers.{}.mlp.fc2"},
    {layer::kPostMlpNorm, "encoder.layers.{}.norm2"},
}};
constexpr std::array<TensorName, 6> kFirstJina = {{
    {kQkvParams, "encoder.layers.{}.mixer.Wqkv"},
    {attention::kOProj, "encoder.layers.{}.mixer.out_proj"},
    {layer::kPostAttentionNorm, "encoder.layers.{}.norm1"},
    {mlp::kUpProj, "encoder.layers.{}.mlp.fc1"},
    {mlp::kDownProj, "encoder.layers.{}.mlp.fc2"},
    {layer::kPostMlpNorm, "encoder.layers.{}.norm2"},
}};
constexpr std::array<TensorName, 6> kFirstGte = {{
    {kQkvParams, "encoder.layer.{}.attention.qkv_proj"},
    {attention::kOProj, "encoder.layer.{}.attention.o_proj"},
    {layer::kPostAttentionNorm, "encoder.layer.{}.attn_ln"},
    {.params = kGateUpParams, .module = "encoder.layer.{}.mlp.up_gate_proj", .row_layout = up_before_gate},
    {mlp::kDownProj, "encoder.layer.{}.mlp.down_proj"},
    {layer::kPostMlpNorm, "encoder.layer.{}.mlp_ln"},
}};
constexpr std::array<TensorName, 2> kPlainMlp = {{
    {mlp::kUpProj, "layers.{}.mlp.fc1"},
    {mlp::kDownProj, "layers.{}.mlp.fc2"},
}};
constexpr auto kNomicModules = joined(kTurningEmbeddings, kTurningLayers, kGatedMlp, kFirstNomic);
constexpr auto kGteModules = joined(kTurningEmbeddings, kTurningLayers, kGatedMlp, kFirstGte);
constexpr auto kJinaModules = joined(kTurningEmbeddings, kTurningLayers, kPlainMlp, kFirstJina);

constexpr std::array<std::string_view, 2> kBertSavedPositions = {"embeddings.position_ids",
                                                                 "embeddings.token_type_ids"};

// Sets the common properties of all encoders.
void bert_make_encoder(const ConfigReader& config, ModelSpec& spec) {
  if (config.boolean("is_decoder", false)) config.fail("is_decoder", "true is not supported");
  spec.task = ModelTask::kEmbed;
  set_bidirectional(spec);
  place_norms(spec, NormPlace::kAfterAdd);
  spec.final_norm.reset();
  spec.embedding_norm = true;
  set_biases(spec, true);
  set_all(spec, &MlpSpec::gated, false);
  read_norm_eps(config, spec, "layer_norm_eps", 1e-12);
  spec.pooling = {PoolKind::kFirst};
  spec.tie_word_embeddings = true;
}

ClassifierSpec pooled_classifier() {
  return {.name = "classifier", .dense = "pooler.dense", .tanh = true, .bias = true};
}

void read_token_types(const ConfigReader& config, ModelSpec& spec, int64_t fallback) {
  spec.token_types = static_cast<int32_t>(config.integer("type_vocab_size", 0, 1024, fallback));
}

// RoPE scaling of the first GTE checkpoints: a larger base, and all angles divided by a factor.
RopeSpec fixed_ntk(const ConfigReader& config, const ConfigReader& scaling, const ModelSpec& spec) {
  if (scaling.has("mixed_b")) scaling.fail("mixed_b", "is not supported");
  const double factor = scaling.number("factor", 1.0, 1e6);
  RopeSpec rope;
  rope.rotary_dim = first_attention(spec).head_dim;
  rope.theta = config.number("rope_theta", 1.0001, 1e15, 160000.0) * factor;
  rope.scaling = RopeScaling::kLinear;
  rope.factor = std::pow(factor, 2.0 / first_attention(spec).head_dim);
  return rope;
}

}  // namespace

ModelSpec parse_bert(const ConfigReader& config) {
  ModelSpec spec = read_sizes(config, {.default_positions = 512});
  bert_make_encoder(config, spec);
  const std::string positions = config.text("position_embedding_type", "absolute");
  if (positions != "absolute") config.fail("position_embedding_type", "other than absolute is not supported");
  set_activation(spec, read_activation(config, "hidden_act", "gelu"));
  spec.position = PositionKind::kLearned;
  read_token_types(config, spec, 2);
  spec.classifier = pooled_classifier();
  // ERNIE. Requests do not name a task, so all tokens use the first one, the default.
  if (config.boolean("use_task_id", false)) {
    spec.task_types = static_cast<int32_t>(config.integer("task_type_vocab_size", 1, 1024, 3));
    if (spec.token_types == 0) config.fail("use_task_id", "without token types is not supported");
  }
  return spec;
}

void read_projected_embeddings(const ConfigReader& config, ModelSpec& spec) {
  const int64_t size = config.integer("embedding_size", 1, kMaxSize, 128);
  if (size > spec.hidden_size) config.fail("embedding_size", "is more than hidden_size");
  spec.embedding_size = size;
  spec.project_embedding_sum = true;
}

namespace {

ModelSpec parse_electra(const ConfigReader& config) {
  ModelSpec spec = parse_bert(config);
  if (config.integer("embedding_size", 1, kMaxSize, 128) != spec.hidden_size)
    read_projected_embeddings(config, spec);
  spec.classifier = ClassifierSpec{.name = "classifier.out_proj",
                                   .dense = "classifier.dense",
                                   .activation = Activation::kGelu,
                                   .bias = true};
  return spec;
}

ModelSpec parse_roberta(const ConfigReader& config) {
  ModelSpec spec = parse_bert(config);
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

ModelSpec parse_distilbert(const ConfigReader& config) {
  ModelSpec spec = read_sizes(config, {.hidden = "dim",
                                       .layers = "n_layers",
                                       .heads = "n_heads",
                                       .intermediate = "hidden_dim",
                                       .default_positions = 512});
  bert_make_encoder(config, spec);
  set_activation(spec, read_activation(config, "activation", "gelu"));
  spec.position = PositionKind::kLearned;
  spec.classifier = ClassifierSpec{
      .name = "classifier", .dense = "pre_classifier", .activation = Activation::kRelu, .bias = true};
  return spec;
}

ModelSpec parse_nomic_bert(const ConfigReader& config) {
  // The first configurations use GPT-2's field names.
  const bool first = config.has("n_embd");
  ModelSpec spec = first ? read_sizes(config, {.hidden = "n_embd",
                                               .layers = "n_layer",
                                               .heads = "n_head",
                                               .intermediate = "n_inner",
                                               .positions = "n_positions"})
                         : read_sizes(config, {});
  bert_make_encoder(config, spec);
  set_biases(spec, false);
  set_all(spec, &MlpSpec::gated, true);
  if (first) {
    read_norm_eps(config, spec, "layer_norm_epsilon", 1e-12);
    if (config.text("activation_function", "swiglu") != "swiglu")
      config.fail("activation_function", "other than swiglu is not supported");
    for (const char* field :
         {"qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias", "prenorm", "rotary_emb_interleaved"}) {
      if (config.boolean(field, false)) config.fail(field, "true is not supported");
    }
    set_activation(spec, Activation::kSilu);
    const double part = config.number("rotary_emb_fraction", 0.0, 1.0, 1.0);
    read_rope(
        config, spec,
        {.theta = config.number("rotary_emb_base", 1.0001, 1e15, 10000.0), .partial = true, .part = part});
  } else {
    set_activation(spec, read_activation(config, "hidden_act", "silu"));
    read_rope(config, spec, {.theta = 1000.0});
  }
  read_token_types(config, spec, 2);
  spec.classifier = pooled_classifier();
  return spec;
}

ModelSpec parse_gte(const ConfigReader& config) {
  ModelSpec spec = read_sizes(config, {.default_positions = 8192});
  bert_make_encoder(config, spec);
  // Options that only the first configurations have.
  if (config.text("position_embedding_type", "rope") != "rope")
    config.fail("position_embedding_type", "other than rope is not supported");
  if (config.text("layer_norm_type", "layer_norm") != "layer_norm")
    config.fail("layer_norm_type", "other than layer_norm is not supported");
  if (config.boolean("logn_attention_scale", false)) config.fail("logn_attention_scale", "is not supported");
  set_all(spec, &MlpSpec::bias, false);
  set_all(spec, &MlpSpec::down_bias, true);
  set_all(spec, &MlpSpec::gated, true);
  set_activation(spec, read_activation(config, "hidden_act", "gelu"));
  const ConfigReader scaling = config.object("rope_scaling");
  if (scaling.text("type", "") == "ntk") {
    spec.ropes = {fixed_ntk(config, scaling, spec)};
    set_rope(spec, 0);
  } else {
    read_rope(config, spec, {.theta = 160000.0});
  }
  read_token_types(config, spec, 1);
  spec.classifier = pooled_classifier();
  return spec;
}

ModelSpec parse_jina_embeddings_v3(const ConfigReader& config) {
  ModelSpec spec = read_sizes(config, {.default_positions = 8194});
  bert_make_encoder(config, spec);
  read_norm_eps(config, spec, "layer_norm_eps", 1e-5);
  set_activation(spec, read_activation(config, "hidden_act", "gelu"));
  read_rope(config, spec, {.theta = 20000.0});
  read_token_types(config, spec, 1);
  spec.classifier =
      ClassifierSpec{.name = "classifier.out_proj", .dense = "classifier.dense", .tanh = true, .bias = true};
  return spec;
}

WeightNames bert_weight_names() {
  return {kBertPrefixes, kBertModules, kBertSavedPositions};
}
WeightNames distilbert_weight_names() {
  return {kBertPrefixes, kDistilBertModules, kBertSavedPositions};
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

}  // namespace

std::span<const Architecture> bert_architectures() {
  static constexpr std::array kRows = {
      Architecture{"BertModel", "bert", parse_bert, bert_weight_names},
      Architecture{"CamembertModel", "camembert", parse_roberta, bert_weight_names},
      Architecture{"Data2VecTextModel", "data2vec-text", parse_roberta, bert_weight_names},
      Architecture{"DistilBertModel", "distilbert", parse_distilbert, distilbert_weight_names},
      Architecture{"ElectraModel", "electra", parse_electra, bert_weight_names},
      Architecture{"ErnieModel", "ernie", parse_bert, bert_weight_names},
      Architecture{"GteModel", "gte", parse_gte, gte_weight_names},
      Architecture{"JinaEmbeddingsV3Model", "jina_embeddings_v3", parse_jina_embeddings_v3,
                   jina_embeddings_v3_weight_names},
      Architecture{"NewModel", "new", parse_gte, gte_weight_names},
      Architecture{"NomicBertModel", "nomic_bert", parse_nomic_bert, nomic_bert_weight_names},
      Architecture{"RobertaModel", "roberta", parse_roberta, bert_weight_names},
      Architecture{"XLMRobertaModel", "xlm-roberta", parse_roberta, bert_weight_names},
  };
  return kRows;
}

}  // namespace quire
