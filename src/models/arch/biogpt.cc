// BioGPT: OPT with other activations, whose embeddings are scaled. XGLM's positions are sines and cosines,
// and so are those of CTRL, whose norms stand before its parts too.
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
constexpr auto kXglmModules = [] {
  auto rows = kModules;
  for (ModuleName& row : rows) {
    if (row.role == Role::kLmHead) row.module = "lm_head";
  }
  return rows;
}();
constexpr std::array<std::string_view, 2> kCtrlPrefixes = {"transformer.", ""};
constexpr std::array<ModuleName, 12> kCtrlModules = {{
    {Role::kEmbedding, "w"},
    {Role::kInputNorm, "h.{}.layernorm1"},
    {Role::kQuery, "h.{}.multi_head_attention.Wq"},
    {Role::kKey, "h.{}.multi_head_attention.Wk"},
    {Role::kValue, "h.{}.multi_head_attention.Wv"},
    {Role::kAttentionOut, "h.{}.multi_head_attention.dense"},
    {Role::kMlpNorm, "h.{}.layernorm2"},
    {Role::kUp, "h.{}.ffn.0"},
    {Role::kDown, "h.{}.ffn.2"},
    {Role::kFinalNorm, "layernorm"},
    {Role::kLmHead, "lm_head"},
    {.role = Role::kLmHeadBias, .module = "lm_head.bias", .bare = true},
}};
// Angles that old versions of transformers saved.
constexpr std::array<std::string_view, 2> kSavedPositions = {"embed_positions.weights", "pos_encoding"};
// Where it is the embedding once more.
constexpr std::array<std::string_view, 1> kTied = {"output_projection.weight"};

// What all have.
ArchSpec parse_family(const ConfigReader& config, const SizeFields& fields) {
  ArchSpec spec = read_sizes(config, fields);
  spec.gated_mlp = false;
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = true;
  spec.norm_eps = 1e-5F;  // whatever layer_norm_eps says
  if (config.boolean("scale_embedding", true))
    spec.embedding_multiplier = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden_size)));
  spec.position = PositionKind::kLearned;
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

void read_sinusoids(const ConfigReader& config, std::string_view field, ArchSpec& spec, int64_t less) {
  if (spec.hidden_size % 2 != 0 || spec.hidden_size < 4) config.fail(field, "must be even, and 4 at least");
  spec.sinusoid_steps = static_cast<int32_t>(spec.hidden_size / 2 - less);
}

}  // namespace

ArchSpec parse_biogpt(const ConfigReader& config) {
  ArchSpec spec = parse_family(config, {.default_positions = 1024});
  spec.activation = read_activation(config, "hidden_act", "gelu");
  spec.position_offset = 2;
  return spec;
}

ArchSpec parse_xglm(const ConfigReader& config) {
  ArchSpec spec = parse_family(config, {.hidden = "d_model",
                                        .layers = "num_layers",
                                        .heads = "attention_heads",
                                        .intermediate = "ffn_dim",
                                        .default_positions = 2048});
  if (config.boolean("add_cross_attention", false)) config.fail("add_cross_attention", "is not supported");
  spec.activation = read_activation(config, "activation_function", "gelu");
  spec.position_offset = 2;
  read_sinusoids(config, "d_model", spec, 1);
  return spec;
}

ArchSpec parse_ctrl(const ConfigReader& config) {
  ArchSpec spec = parse_family(config, {.hidden = "n_embd",
                                        .layers = "n_layer",
                                        .heads = "n_head",
                                        .intermediate = "dff",
                                        .positions = "n_positions",
                                        .default_positions = 256});
  spec.norm_eps = 1e-6F;
  if (config.number("layer_norm_epsilon", 0.0, 1.0, 1e-6) != 1e-6)
    config.fail("layer_norm_epsilon", "other than 1e-6 is not supported");
  spec.activation = Activation::kRelu;
  spec.lm_head_bias = true;
  read_sinusoids(config, "n_embd", spec, 0);
  return spec;
}

WeightNames ctrl_weight_names() {
  return {kCtrlPrefixes, kCtrlModules, kSavedPositions};
}
WeightNames xglm_weight_names() {
  return {kModelPrefixes, kXglmModules, kSavedPositions};
}
WeightNames biogpt_weight_names() {
  return {kPrefixes, kModules, kTied};
}

}  // namespace quire
