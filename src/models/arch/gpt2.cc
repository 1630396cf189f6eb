// GPT-2: learned positions, LayerNorm, biases everywhere, an ungated MLP, and matrices stored as [in, out].
// GPT (the first) has post-LN.
#include <array>
#include <cmath>

#include "base/strings.h"
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<std::string_view, 2> kGpt2Prefixes = {"transformer.", ""};

// The second name of each matrix is for GGUF files, which store it as [out, in].
constexpr std::array<TensorName, 14> kGpt2Modules = {{
    {model::kEmbedTokens, "wte"},
    {model::kPositionEmbeddings, "wpe"},
    {layer::kInputNorm, "h.{}.ln_1"},
    {kQkvParams, "h.{}.attn.c_attn", true},
    {kQkvParams, "h.{}.attn.qkv_rows"},
    {attention::kOProj, "h.{}.attn.c_proj", true},
    {attention::kOProj, "h.{}.attn.out_rows"},
    {layer::kMlpNorm, "h.{}.ln_2"},
    {mlp::kUpProj, "h.{}.mlp.c_fc", true},
    {mlp::kUpProj, "h.{}.mlp.fc_rows"},
    {mlp::kDownProj, "h.{}.mlp.c_proj", true},
    {mlp::kDownProj, "h.{}.mlp.proj_rows"},
    {model::kFinalNorm, "ln_f"},
    {model::kLmHead, "lm_head"},
}};

// Causal masks that old versions of transformers saved.
constexpr std::array<std::string_view, 2> kGpt2Ignored = {"h.{}.attn.bias", "h.{}.attn.masked_bias"};

constexpr std::array<TensorName, 9> kFirstModules = {{
    {model::kEmbedTokens, "tokens_embed"},
    {model::kPositionEmbeddings, "positions_embed"},
    {kQkvParams, "h.{}.attn.c_attn", true},
    {attention::kOProj, "h.{}.attn.c_proj", true},
    {layer::kPostAttentionNorm, "h.{}.ln_1"},
    {mlp::kUpProj, "h.{}.mlp.c_fc", true},
    {mlp::kDownProj, "h.{}.mlp.c_proj", true},
    {layer::kPostMlpNorm, "h.{}.ln_2"},
    {model::kLmHead, "lm_head"},
}};

// The common part of both models.
ModelSpec parse_gpt2_family(const ConfigReader& config) {
  ModelSpec spec = read_sizes(config, kGpt2Sizes);
  read_norm_eps(config, spec, "layer_norm_epsilon", 1e-5);
  set_all(spec, &MlpSpec::gated, false);
  set_biases(spec, true);
  spec.position = PositionKind::kLearned;
  spec.tie_word_embeddings = config.boolean("tie_word_embeddings", true);
  return spec;
}

ModelSpec parse_openai_gpt(const ConfigReader& config) {
  ModelSpec spec = parse_gpt2_family(config);
  // Its "gelu" is the tanh approximation.
  set_activation(spec, config.text("afn", "gelu") == "gelu" ? Activation::kGeluTanh
                                                            : read_activation(config, "afn", "gelu"));
  place_norms(spec, NormPlace::kAfterAdd);
  spec.final_norm.reset();
  return spec;
}

ModelSpec parse_gpt2(const ConfigReader& config) {
  ModelSpec spec = parse_gpt2_family(config);
  if (config.boolean("add_cross_attention", false)) config.fail("add_cross_attention", "is not supported");
  set_activation(spec, read_activation(config, "activation_function", "gelu_new"));

  const bool by_size = config.boolean("scale_attn_weights", true);
  const bool by_layer = config.boolean("scale_attn_by_inverse_layer_idx", false);
  for (int32_t i = 0; i < spec.num_layers(); ++i) {
    double scale = by_size ? 1.0 / std::sqrt(static_cast<double>(first_attention(spec).head_dim)) : 1.0;
    if (by_layer) scale /= i + 1;
    attention_of(spec.layers[static_cast<size_t>(i)])->params.scale = static_cast<float>(scale);
  }
  return spec;
}

WeightNames openai_gpt_weight_names() {
  return {kGpt2Prefixes, kFirstModules, kGpt2Ignored};
}
WeightNames gpt2_weight_names() {
  return {kGpt2Prefixes, kGpt2Modules, kGpt2Ignored};
}

}  // namespace

std::span<const Architecture> gpt2_architectures() {
  static constexpr std::array kRows = {
      Architecture{"GPT2LMHeadModel", "gpt2", parse_gpt2, gpt2_weight_names},
      Architecture{"OpenAIGPTLMHeadModel", "openai-gpt", parse_openai_gpt, openai_gpt_weight_names},
  };
  return kRows;
}

}  // namespace quire
