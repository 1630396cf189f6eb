// BioGPT: OPT with other activations and scaled embeddings. XGLM and CTRL have sinusoidal position
// embeddings; CTRL has norms before attention and MLP, too.
#include <cmath>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kBiogptPrefixes = {"biogpt.", ""};

constexpr std::array<TensorName, 12> kBiogptModules = {{
    {model::kEmbedTokens, "embed_tokens"},
    {model::kPositionEmbeddings, "embed_positions"},
    {layer::kInputNorm, "layers.{}.self_attn_layer_norm"},
    {attention::kQProj, "layers.{}.self_attn.q_proj"},
    {attention::kKProj, "layers.{}.self_attn.k_proj"},
    {attention::kVProj, "layers.{}.self_attn.v_proj"},
    {attention::kOProj, "layers.{}.self_attn.out_proj"},
    {layer::kMlpNorm, "layers.{}.final_layer_norm"},
    {mlp::kUpProj, "layers.{}.fc1"},
    {mlp::kDownProj, "layers.{}.fc2"},
    {model::kFinalNorm, "layer_norm"},
    {model::kLmHead, "output_projection"},
}};
constexpr auto kXglmModules = [] {
  auto rows = kBiogptModules;
  for (TensorName& row : rows) {
    if (row.params == ParamIds(model::kLmHead)) row.module = "lm_head";
  }
  return rows;
}();
constexpr std::array<std::string_view, 2> kCtrlPrefixes = {"transformer.", ""};
constexpr std::array<TensorName, 12> kCtrlModules = {{
    {model::kEmbedTokens, "w"},
    {layer::kInputNorm, "h.{}.layernorm1"},
    {attention::kQProj, "h.{}.multi_head_attention.Wq"},
    {attention::kKProj, "h.{}.multi_head_attention.Wk"},
    {attention::kVProj, "h.{}.multi_head_attention.Wv"},
    {attention::kOProj, "h.{}.multi_head_attention.dense"},
    {layer::kMlpNorm, "h.{}.layernorm2"},
    {mlp::kUpProj, "h.{}.ffn.0"},
    {mlp::kDownProj, "h.{}.ffn.2"},
    {model::kFinalNorm, "layernorm"},
    {model::kLmHead, "lm_head"},
    {.params = model::kLmHeadBias, .module = "lm_head.bias", .bare = true},
}};
// Position tables that old versions of transformers saved.
constexpr std::array<std::string_view, 2> kBiogptSavedPositions = {"embed_positions.weights", "pos_encoding"};
// A second copy of the tied embedding.
constexpr std::array<std::string_view, 1> kBiogptTied = {"output_projection.weight"};

// The common part of the three models.
ModelSpec parse_biogpt_family(const ConfigReader& config, const SizeFields& fields) {
  ModelSpec spec = read_sizes(config, fields);
  set_all(spec, &MlpSpec::gated, false);
  set_biases(spec, true);
  if (config.boolean("scale_embedding", true))
    spec.embedding_multiplier = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden_size)));
  set_norm(spec, {.kind = NormKind::kLayer, .eps = 1e-5F, .bias = true});  // regardless of layer_norm_eps
  spec.position = PositionKind::kLearned;
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

void read_sinusoids(const ConfigReader& config, std::string_view field, ModelSpec& spec, int64_t less) {
  if (spec.hidden_size % 2 != 0 || spec.hidden_size < 4) config.fail(field, "must be even and at least 4");
  spec.sinusoid_steps = static_cast<int32_t>(spec.hidden_size / 2 - less);
}

ModelSpec parse_biogpt(const ConfigReader& config) {
  ModelSpec spec = parse_biogpt_family(config, {.default_positions = 1024});
  set_activation(spec, read_activation(config, "hidden_act", "gelu"));
  spec.position_offset = 2;
  return spec;
}

ModelSpec parse_xglm(const ConfigReader& config) {
  ModelSpec spec = parse_biogpt_family(config, {.hidden = "d_model",
                                                .layers = "num_layers",
                                                .heads = "attention_heads",
                                                .intermediate = "ffn_dim",
                                                .default_positions = 2048});
  if (config.boolean("add_cross_attention", false)) config.fail("add_cross_attention", "is not supported");
  set_activation(spec, read_activation(config, "activation_function", "gelu"));
  spec.position_offset = 2;
  read_sinusoids(config, "d_model", spec, 1);
  return spec;
}

ModelSpec parse_ctrl(const ConfigReader& config) {
  ModelSpec spec = parse_biogpt_family(config, {.hidden = "n_embd",
                                                .layers = "n_layer",
                                                .heads = "n_head",
                                                .intermediate = "dff",
                                                .positions = "n_positions",
                                                .default_positions = 256});
  set_norm(spec, {.kind = NormKind::kLayer, .eps = 1e-6F, .bias = true});
  if (config.number("layer_norm_epsilon", 0.0, 1.0, 1e-6) != 1e-6)
    config.fail("layer_norm_epsilon", "other than 1e-6 is not supported");
  set_activation(spec, Activation::kRelu);
  spec.lm_head_bias = true;
  read_sinusoids(config, "n_embd", spec, 0);
  return spec;
}

WeightNames ctrl_weight_names() {
  return {kCtrlPrefixes, kCtrlModules, kBiogptSavedPositions};
}
WeightNames xglm_weight_names() {
  return {kModelPrefixes, kXglmModules, kBiogptSavedPositions};
}
WeightNames biogpt_weight_names() {
  return {kBiogptPrefixes, kBiogptModules, kBiogptTied};
}

}  // namespace

std::span<const Architecture> biogpt_architectures() {
  static constexpr std::array kRows = {
      Architecture{"BioGptForCausalLM", "biogpt", parse_biogpt, biogpt_weight_names},
      Architecture{"CTRLLMHeadModel", "ctrl", parse_ctrl, ctrl_weight_names},
      Architecture{"XGLMForCausalLM", "xglm", parse_xglm, xglm_weight_names},
  };
  return kRows;
}

}  // namespace quire
