// Llama 1 to 3.x, and what is built like it: TinyLlama, SmolLM2, Yi.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kModules = joined(kLlamaMatrices, kLlamaNorms);

}  // namespace

ArchSpec parse_llama(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {});
  spec.qkv_bias = config.boolean("attention_bias", false);
  spec.out_bias = spec.qkv_bias;
  spec.mlp_bias = config.boolean("mlp_bias", false);
  return spec;
}

ArchSpec parse_cwm(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(
      config, {.head_dim = 128, .max_position_embeddings = 131072, .rope = {.theta = 1e6}});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  const auto window = static_cast<int32_t>(config.integer("sliding_window", 1, kMaxPositions, 8192));
  assign_windows(spec, sliding_layers(config, spec, 4, 0), window, 0, 0);
  return spec;
}

ArchSpec parse_helium(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.head_dim = 128,
                                              .max_position_embeddings = 4096,
                                              .rope = {.theta = 1e5, .style = RopeStyle::kInterleaved}});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-8));
  spec.qkv_bias = config.boolean("attention_bias", false);
  spec.mlp_bias = config.boolean("mlp_bias", false);
  return spec;
}

WeightNames llama_weight_names() {
  return {kModelPrefixes, kModules, kSavedAngles};
}

}  // namespace quire
