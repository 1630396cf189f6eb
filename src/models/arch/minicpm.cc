// MiniCPM 1 and 2: Llama with scaled embeddings, residual branches and logits (muP). MiniCPM 3: the same with
// latent attention.
#include <cmath>

#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

// Default values of absent fields.
struct Scales {
  double embedding = 1.0;
  double depth = 1.0;
  double base = 1.0;
};

void read_scales(const ConfigReader& config, ModelSpec& spec, const Scales& defaults) {
  spec.embedding_multiplier = static_cast<float>(config.number("scale_emb", -1e9, 1e9, defaults.embedding));
  const double layers = std::sqrt(spec.num_layers());
  multiply_branches(spec,
                    static_cast<float>(config.number("scale_depth", -1e9, 1e9, defaults.depth) / layers));
  const double base = config.number("dim_model_base", 1.0, 1e9, defaults.base);
  spec.logit_scale = static_cast<float>(base / static_cast<double>(spec.hidden_size));
}

ModelSpec parse_minicpm(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.tie_word_embeddings = true, .norm_eps = 1e-6});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  if (config.integer("num_experts", 0, kMaxExperts, 0) > 0) config.fail("num_experts", "is not supported");
  read_scales(config, spec, {});
  return spec;
}

ModelSpec parse_minicpm3(const ConfigReader& config) {
  const int64_t value =
      config.integer("hidden_size", 1, kMaxSize) / config.integer("num_attention_heads", 1, 1 << 16);
  ModelSpec spec = parse_latent_family(config, {.max_position_embeddings = 32768,
                                                .interleaved = false,
                                                .value = static_cast<int32_t>(value),
                                                .tie_word_embeddings = true,
                                                .norm_eps = 1e-5});
  read_scales(config, spec, {.embedding = 12.0, .depth = 1.4, .base = 256.0});
  return spec;
}

}  // namespace

std::span<const Architecture> minicpm_architectures() {
  static constexpr std::array kRows = {
      Architecture{"MiniCPM3ForCausalLM", "minicpm3", parse_minicpm3, deepseek_weight_names},
      Architecture{"MiniCPMForCausalLM", "minicpm", parse_minicpm, llama_weight_names},
  };
  return kRows;
}

}  // namespace quire
