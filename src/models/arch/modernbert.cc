// ModernBERT: an encoder with pre-norm and RoPE; most layers have a bidirectional sliding window and another
// RoPE base. Its decoder has causal windows. EuroBERT: Llama with bidirectional attention.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kModernbertPrefixes = {"model.", ""};
constexpr std::array<TensorName, 9> kModernbertModules = {{
    {model::kEmbedTokens, "embeddings.tok_embeddings"},
    {model::kEmbedNorm, "embeddings.norm"},
    {layer::kInputNorm, "layers.{}.attn_norm"},
    {kQkvParams, "layers.{}.attn.Wqkv"},
    {attention::kOProj, "layers.{}.attn.Wo"},
    {layer::kMlpNorm, "layers.{}.mlp_norm"},
    {kGateUpParams, "layers.{}.mlp.Wi"},
    {mlp::kDownProj, "layers.{}.mlp.Wo"},
    {model::kFinalNorm, "final_norm"},
}};

constexpr std::array<TensorName, 15> kDecoderModules = {{
    {model::kEmbedTokens, "embeddings.tok_embeddings"},
    {model::kEmbedNorm, "embeddings.norm"},
    {layer::kInputNorm, "layers.{}.attn_norm"},
    {attention::kQProj, "layers.{}.attn.q_proj"},
    {attention::kKProj, "layers.{}.attn.k_proj"},
    {attention::kVProj, "layers.{}.attn.v_proj"},
    {attention::kOProj, "layers.{}.attn.Wo"},
    {layer::kMlpNorm, "layers.{}.mlp_norm"},
    {kGateUpParams, "layers.{}.mlp.Wi"},
    {mlp::kDownProj, "layers.{}.mlp.Wo"},
    {model::kFinalNorm, "final_norm"},
    {model::kHeadDense, "lm_head.dense"},
    {model::kHeadNorm, "lm_head.norm"},
    {model::kLmHead, "decoder"},
    {.params = model::kLmHeadBias, .module = "decoder.bias", .bare = true},
}};
// A second copy of the tied embedding.
constexpr std::array<std::string_view, 1> kModernbertTied = {"decoder.weight"};

// The common part of encoder and decoder.
ModelSpec parse_modernbert_family(const ConfigReader& config) {
  ModelSpec spec = read_sizes(config, {.default_positions = 8192});
  set_norm(spec, {.kind = NormKind::kLayer, .bias = config.boolean("norm_bias", false)});
  read_norm_eps(config, spec, "norm_eps", 1e-5);
  spec.embedding_norm = true;
  spec.layers.front().mixer_branch.pre_norm.reset();
  set_activation(spec, read_activation(config, "hidden_activation", "gelu"));
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_all(spec, &MlpSpec::bias, config.boolean("mlp_bias", false));

  const double global_theta = config.number("global_rope_theta", 1.0001, 1e15, 160000.0);
  const double local_theta = config.number("local_rope_theta", 1.0001, 1e15, 10000.0);
  read_rope(config, spec, {.theta = global_theta, .window_theta = local_theta});
  if (spec.ropes.size() == 1) {
    RopeSpec local = spec.ropes.front();
    local.theta = local_theta;
    spec.ropes.push_back(local);
  }
  const int64_t every = config.integer("global_attn_every_n_layers", 1, kMaxLayers, 3);
  auto sliding = sliding_layers(config, spec, every);
  if (!config.has("layer_types")) {
    for (size_t i = 0; i < sliding.size(); ++i) sliding[i] = static_cast<int64_t>(i) % every != 0;
  }
  // Tokens on either side.
  const int64_t around = config.integer("local_attention", 1, kMaxPositions, 128) / 2;
  assign_windows(spec, sliding, static_cast<int32_t>(around + 1), 1, 0);
  return spec;
}

ModelSpec parse_modernbert_decoder(const ConfigReader& config) {
  ModelSpec spec = parse_modernbert_family(config);
  // The decoder's window has one token less: it includes the token itself.
  for_parts_of<AttentionSpec>(
      spec, [](AttentionSpec& own) { own.params.window = std::max(0, own.params.window - 1); });
  spec.output_head = {.bias = config.boolean("classifier_bias", false),
                      .activation = read_activation(config, "classifier_activation", "gelu")};
  spec.lm_head_bias = config.boolean("decoder_bias", true);
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

ModelSpec parse_modernbert(const ConfigReader& config) {
  ModelSpec spec = parse_modernbert_family(config);
  spec.task = ModelTask::kEmbed;
  set_bidirectional(spec);
  spec.tie_word_embeddings = true;
  const std::string pooling = config.text("classifier_pooling", "cls");
  if (pooling != "cls" && pooling != "mean") config.fail("classifier_pooling", "is neither cls nor mean");
  spec.pooling = {pooling == "cls" ? PoolKind::kFirst : PoolKind::kMean};
  spec.classifier = ClassifierSpec{.name = "classifier",
                                   .dense = "head.dense",
                                   .norm = "head.norm",
                                   .dense_bias = config.boolean("classifier_bias", false),
                                   .activation = read_activation(config, "classifier_activation", "gelu"),
                                   .bias = true};
  return spec;
}

ModelSpec parse_eurobert(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.max_position_embeddings = 8192, .norm_eps = 1e-5});
  spec.task = ModelTask::kEmbed;
  set_bidirectional(spec);
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_all(spec, &MlpSpec::bias, config.boolean("mlp_bias", false));
  spec.pooling = {PoolKind::kMean};
  const std::string pooling = config.text("classifier_pooling", "late");
  if (pooling == "bos") spec.pooling = {PoolKind::kFirst};
  if (pooling == "bos" || pooling == "mean") {
    spec.classifier =
        ClassifierSpec{.name = "classifier", .dense = "dense", .activation = Activation::kGelu, .bias = true};
  }
  return spec;
}

WeightNames modernbert_decoder_weight_names() {
  return {kModernbertPrefixes, kDecoderModules, kModernbertTied};
}
WeightNames modernbert_weight_names() {
  return {kModernbertPrefixes, kModernbertModules, {}};
}

}  // namespace

std::span<const Architecture> modernbert_architectures() {
  static constexpr std::array kRows = {
      Architecture{"EuroBertModel", "eurobert", parse_eurobert, llama_weight_names},
      Architecture{"ModernBertDecoderForCausalLM", "modernbert-decoder", parse_modernbert_decoder,
                   modernbert_decoder_weight_names},
      Architecture{"ModernBertModel", "modernbert", parse_modernbert, modernbert_weight_names},
  };
  return kRows;
}

}  // namespace quire
