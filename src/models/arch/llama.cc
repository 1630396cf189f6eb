// Llama 1 to 3.x, and models with the same structure: TinyLlama, SmolLM2, Yi.
#include <vector>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kLlamaModules = joined(kLlamaMatrices, kLlamaNorms);

}  // namespace

ModelSpec parse_llama(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_all(spec, &MlpSpec::bias, config.boolean("mlp_bias", false));
  return spec;
}

namespace {

// The language model of Llama 3.2 Vision. Its cross-attention layers have no effect without an image.
ModelSpec parse_mllama(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(
      config, {.max_position_embeddings = 131072, .rope = {.theta = 500000.0}, .norm_eps = 1e-5});
  std::vector<int64_t> crossed = config.integers("cross_attention_layers", 0, spec.num_layers() - 1);
  if (!config.has("cross_attention_layers")) {
    for (int64_t i = 3; i < spec.num_layers(); i += 5) crossed.push_back(i);
  }
  for (const int64_t i : crossed) {
    LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    remove_mixer(layer);
    remove_feed_forward(layer);
  }
  if (spec.tie_word_embeddings) config.fail("tie_word_embeddings", "true is not supported");
  spec.embedding_rest = 8;  // image placeholder tokens
  return spec;
}

ModelSpec parse_cwm(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(
      config, {.head_dim = 128, .max_position_embeddings = 131072, .rope = {.theta = 1e6}, .norm_eps = 1e-5});
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 8192));
  assign_windows(spec, sliding_layers(config, spec, 4, 0), window, 0, 0);
  return spec;
}

ModelSpec parse_helium(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.head_dim = 128,
                                               .max_position_embeddings = 4096,
                                               .rope = {.theta = 1e5, .style = RopeStyle::kInterleaved},
                                               .norm_eps = 1e-8});
  set_all(spec, &AttentionSpec::qkv_bias, config.boolean("attention_bias", false));
  set_all(spec, &MlpSpec::bias, config.boolean("mlp_bias", false));
  return spec;
}

}  // namespace

WeightNames llama_weight_names() {
  return {kModelPrefixes, kLlamaModules, kSavedAngles};
}

std::span<const Architecture> llama_architectures() {
  static constexpr std::array kRows = {
      Architecture{"CwmForCausalLM", "cwm", parse_cwm, llama_weight_names},
      Architecture{"Emu3ForCausalLM", "emu3_text_model", parse_llama, llama_weight_names},
      Architecture{"HeliumForCausalLM", "helium", parse_helium, llama_weight_names},
      Architecture{"InternLM3ForCausalLM", "internlm3", parse_llama, llama_weight_names},
      Architecture{"IQuestCoderForCausalLM", "iquestcoder", parse_llama, llama_weight_names},
      Architecture{"LlamaForCausalLM", "llama", parse_llama, llama_weight_names},
      Architecture{"MllamaForCausalLM", "mllama_text_model", parse_mllama, llama_weight_names},
  };
  return kRows;
}

}  // namespace quire
