// Gemma 1, 2 and 3 (text): norms multiply by 1 + weight, embeddings are multiplied by the square root of the
// hidden size. Gemma 2 has norms after attention and MLP and softcaps on scores and logits. Gemma 3 has QK
// norm and another RoPE base in layers with a sliding window.
#include <cmath>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr std::array<TensorName, 4> kFourNorms = {{
    {layer::kInputNorm, "layers.{}.input_layernorm"},
    {layer::kPostAttentionNorm, "layers.{}.post_attention_layernorm"},
    {layer::kMlpNorm, "layers.{}.pre_feedforward_layernorm"},
    {layer::kPostMlpNorm, "layers.{}.post_feedforward_layernorm"},
}};
constexpr auto kGemmaModules = joined(kLlamaMatrices, kLlamaNorms);
constexpr auto kGemma2Modules = joined(kLlamaMatrices, kFourNorms);
constexpr std::array<TensorName, 2> kTwoNorms = {{
    {layer::kInputNorm, "layers.{}.input_layernorm"},
    {layer::kMlpNorm, "layers.{}.pre_feedforward_layernorm"},
}};
constexpr auto kTwoNormModules = joined(kLlamaMatrices, kTwoNorms);
constexpr auto kGemma3Modules = joined(kLlamaMatrices, kFourNorms, kQkNorms);

ModelSpec parse_gemma_family(const ConfigReader& config, int64_t positions, const RopeDefaults& rope) {
  ModelSpec spec = parse_llama_family(config, {.head_dim = 256,
                                               .max_position_embeddings = positions,
                                               .rope = rope,
                                               .tie_word_embeddings = true,
                                               .activation_field = "hidden_activation",
                                               .activation = "gelu_pytorch_tanh"});
  set_norm_offset(spec, 1.0F);
  spec.embedding_multiplier = static_cast<float>(std::sqrt(static_cast<double>(spec.hidden_size)));
  set_attention_bias(spec, config.boolean("attention_bias", false));
  return spec;
}

// The additions of Gemma 2 and 3. pattern: every pattern-th layer has full attention; the others have a
// sliding window and the rotary embedding window_rope.
void read_windows_and_caps(const ConfigReader& config, ModelSpec& spec, int64_t pattern, int32_t window_rope,
                           double attention_cap, double logit_cap) {
  if (config.boolean("use_bidirectional_attention", false)) set_bidirectional(spec);
  place_norms(spec, NormPlace::kBoth);
  set_score_divisor(spec, std::sqrt(config.number("query_pre_attn_scalar", 1e-6, 1e9, 256.0)));
  const auto cap = static_cast<float>(config.number("attn_logit_softcapping", 0.0, 1e9, attention_cap));
  for_parts_of<AttentionSpec>(spec, [&](AttentionSpec& own) { own.params.logit_softcap = cap; });
  spec.logit_softcap = static_cast<float>(config.number("final_logit_softcapping", 0.0, 1e9, logit_cap));
  auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 4096));
  if (spec.bidirectional) window = window / 2 + 1;  // tokens on either side
  const auto sliding =
      sliding_layers(config, spec, config.integer("sliding_window_pattern", 1, 1024, pattern));
  assign_windows(spec, sliding, window, window_rope, 0);
}

// A null softcap means none, an absent one the default of the architecture.
double cap_or(const ConfigReader& config, std::string_view field, double cap) {
  return config.mentions(field) && !config.has(field) ? 0.0 : cap;
}

ModelSpec parse_gemma(const ConfigReader& config) {
  ModelSpec spec = parse_gemma_family(config, 8192, {});
  // The first configurations have "gelu" in another field, which means the tanh approximation.
  if (!config.has("hidden_activation")) set_activation(spec, Activation::kGeluTanh);
  return spec;
}

ModelSpec parse_gemma2(const ConfigReader& config) {
  ModelSpec spec = parse_gemma_family(config, 8192, {});
  read_windows_and_caps(config, spec, 2, 0, cap_or(config, "attn_logit_softcapping", 50.0),
                        cap_or(config, "final_logit_softcapping", 30.0));
  return spec;
}

// VaultGemma: Gemma 2 without norms after attention and MLP.
ModelSpec parse_vaultgemma(const ConfigReader& config) {
  ModelSpec spec = parse_gemma2(config);
  place_norms(spec, NormPlace::kBefore);
  return spec;
}

ModelSpec parse_gemma3(const ConfigReader& config) {
  ModelSpec spec = parse_gemma_family(config, 131072, {.theta = 1e6, .window_theta = 1e4});
  if (spec.ropes.size() == 1) {
    RopeSpec local;
    local.theta = config.number("rope_local_base_freq", 1.0001, 1e15, 1e4);
    local.rotary_dim = first_attention(spec).head_dim;
    spec.ropes.push_back(local);
  }
  read_windows_and_caps(config, spec, 6, 1, 0.0, 0.0);
  set_qk_norm(spec, QkNorm::kHeads);
  spec.max_model_len = spec.max_position_embeddings;  // includes the RoPE scaling
  return spec;
}

WeightNames gemma_weight_names() {
  return {kModelPrefixes, kGemmaModules, kSavedAngles};
}
WeightNames gemma2_weight_names() {
  return {kModelPrefixes, kGemma2Modules, {}};
}
WeightNames vaultgemma_weight_names() {
  return {kModelPrefixes, kTwoNormModules, {}};
}
WeightNames gemma3_weight_names() {
  return {kModelPrefixes, kGemma3Modules, {}};
}

}  // namespace

std::span<const Architecture> gemma_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Gemma2ForCausalLM", "gemma2", parse_gemma2, gemma2_weight_names},
      Architecture{"Gemma3ForCausalLM", "gemma3_text", parse_gemma3, gemma3_weight_names},
      Architecture{"GemmaForCausalLM", "gemma", parse_gemma, gemma_weight_names},
      Architecture{"VaultGemmaForCausalLM", "vaultgemma", parse_vaultgemma, vaultgemma_weight_names},
  };
  return kRows;
}

}  // namespace quire
