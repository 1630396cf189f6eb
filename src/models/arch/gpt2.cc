// GPT-2: learned positions, LayerNorm, biases everywhere, a plain MLP, and matrices stored [in, out]. GPT
// (the first) has its norms behind the sums.
#include <array>
#include <cmath>

#include "base/strings.h"
#include "models/arch/arch.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes = {"transformer.", ""};

// The second name of a matrix is that of one stored [out, in], as GGUF files have them.
constexpr std::array<ModuleName, 14> kModules = {{
    {Role::kEmbedding, "wte"},
    {Role::kPositionEmbedding, "wpe"},
    {Role::kInputNorm, "h.{}.ln_1"},
    {Role::kQkv, "h.{}.attn.c_attn", true},
    {Role::kQkv, "h.{}.attn.qkv_rows"},
    {Role::kAttentionOut, "h.{}.attn.c_proj", true},
    {Role::kAttentionOut, "h.{}.attn.out_rows"},
    {Role::kMlpNorm, "h.{}.ln_2"},
    {Role::kUp, "h.{}.mlp.c_fc", true},
    {Role::kUp, "h.{}.mlp.fc_rows"},
    {Role::kDown, "h.{}.mlp.c_proj", true},
    {Role::kDown, "h.{}.mlp.proj_rows"},
    {Role::kFinalNorm, "ln_f"},
    {Role::kLmHead, "lm_head"},
}};

// Causal masks that old versions of transformers saved.
constexpr std::array<std::string_view, 2> kIgnored = {"h.{}.attn.bias", "h.{}.attn.masked_bias"};

constexpr std::array<ModuleName, 9> kFirstModules = {{
    {Role::kEmbedding, "tokens_embed"},
    {Role::kPositionEmbedding, "positions_embed"},
    {Role::kQkv, "h.{}.attn.c_attn", true},
    {Role::kAttentionOut, "h.{}.attn.c_proj", true},
    {Role::kPostAttentionNorm, "h.{}.ln_1"},
    {Role::kUp, "h.{}.mlp.c_fc", true},
    {Role::kDown, "h.{}.mlp.c_proj", true},
    {Role::kPostMlpNorm, "h.{}.ln_2"},
    {Role::kLmHead, "lm_head"},
}};

// What both have.
ArchSpec parse_family(const ConfigReader& config) {
  ArchSpec spec = read_sizes(config, kGpt2Sizes);
  spec.norm_eps = static_cast<float>(config.number("layer_norm_epsilon", 0.0, 1.0, 1e-5));
  spec.gated_mlp = false;
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = true;
  spec.position = PositionKind::kLearned;
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

}  // namespace

ArchSpec parse_openai_gpt(const ConfigReader& config) {
  ArchSpec spec = parse_family(config);
  // What it calls gelu is the approximation.
  spec.activation =
      config.text("afn", "gelu") == "gelu" ? Activation::kGeluTanh : read_activation(config, "afn", "gelu");
  spec.input_norm = spec.mlp_norm = spec.final_norm = false;
  spec.sum_norms = true;
  return spec;
}

ArchSpec parse_gpt2(const ConfigReader& config) {
  ArchSpec spec = parse_family(config);
  if (config.boolean("add_cross_attention", false)) config.fail("add_cross_attention", "is not supported");
  spec.activation = read_activation(config, "activation_function", "gelu_new");

  const bool by_size = config.boolean("scale_attn_weights", true);
  const bool by_layer = config.boolean("scale_attn_by_inverse_layer_idx", false);
  for (int32_t i = 0; i < spec.num_layers; ++i) {
    double scale = by_size ? 1.0 / std::sqrt(static_cast<double>(spec.head_dim)) : 1.0;
    if (by_layer) scale /= i + 1;
    spec.layers[static_cast<size_t>(i)].attention_scale = static_cast<float>(scale);
  }
  return spec;
}

WeightNames openai_gpt_weight_names() {
  return {kPrefixes, kFirstModules, kIgnored};
}
WeightNames gpt2_weight_names() {
  return {kPrefixes, kModules, kIgnored};
}

}  // namespace quire
