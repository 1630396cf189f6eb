// GPT-2: learned positions, LayerNorm, biases everywhere, a plain MLP, and matrices stored [in, out].
#include <array>
#include <cmath>

#include "base/strings.h"
#include "models/arch/arch.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kPrefixes = {"transformer.", ""};

constexpr std::array<ModuleName, 10> kModules = {{
    {Role::kEmbedding, "wte"},
    {Role::kPositionEmbedding, "wpe"},
    {Role::kInputNorm, "h.{}.ln_1"},
    {Role::kQkv, "h.{}.attn.c_attn", true},
    {Role::kAttentionOut, "h.{}.attn.c_proj", true},
    {Role::kMlpNorm, "h.{}.ln_2"},
    {Role::kUp, "h.{}.mlp.c_fc", true},
    {Role::kDown, "h.{}.mlp.c_proj", true},
    {Role::kFinalNorm, "ln_f"},
    {Role::kLmHead, "lm_head"},
}};

// Causal masks that old versions of transformers saved.
constexpr std::array<std::string_view, 2> kIgnored = {"h.{}.attn.bias", "h.{}.attn.masked_bias"};

}  // namespace

ArchSpec parse_gpt2(const ConfigReader& config) {
  ArchSpec spec;
  spec.vocab_size = config.integer("vocab_size", 1, kMaxSize);
  spec.hidden_size = config.integer("n_embd", 1, kMaxSize);
  spec.intermediate_size = config.integer("n_inner", 1, kMaxSize, 4 * spec.hidden_size);
  spec.num_layers = static_cast<int32_t>(config.integer("n_layer", 1, kMaxLayers));
  spec.num_heads = static_cast<int32_t>(config.integer("n_head", 1, 1 << 16));
  spec.num_kv_heads = spec.num_heads;
  if (spec.hidden_size % spec.num_heads != 0) {
    config.fail("n_head",
                cat("is ", spec.num_heads, ", which does not divide n_embd (", spec.hidden_size, ")"));
  }
  spec.head_dim = static_cast<int32_t>(spec.hidden_size / spec.num_heads);
  spec.max_position_embeddings = config.integer("n_positions", 1, kMaxPositions, 1024);
  spec.max_model_len = spec.max_position_embeddings;
  if (config.boolean("add_cross_attention", false)) config.fail("add_cross_attention", "is not supported");

  spec.norm = NormKind::kLayer;
  spec.norm_eps = static_cast<float>(config.number("layer_norm_epsilon", 0.0, 1.0, 1e-5));
  spec.activation = read_activation(config, "activation_function", "gelu_new");
  spec.gated_mlp = false;
  spec.qkv_bias = spec.out_bias = spec.mlp_bias = true;
  spec.position = PositionKind::kLearned;

  const bool by_size = config.boolean("scale_attn_weights", true);
  const bool by_layer = config.boolean("scale_attn_by_inverse_layer_idx", false);
  for (int32_t i = 0; i < spec.num_layers; ++i) {
    double scale = by_size ? 1.0 / std::sqrt(static_cast<double>(spec.head_dim)) : 1.0;
    if (by_layer) scale /= i + 1;
    spec.layers.push_back({0, static_cast<float>(scale)});
  }

  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  spec.eos_token_ids = config.token_ids("eos_token_id", spec.vocab_size);
  const auto bos = config.token_ids("bos_token_id", spec.vocab_size);
  if (!bos.empty()) spec.bos_token_id = bos.front();
  return spec;
}

WeightNames gpt2_weight_names() {
  return {kPrefixes, kModules, kIgnored};
}

}  // namespace quire
