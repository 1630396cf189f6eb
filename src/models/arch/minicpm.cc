// MiniCPM 1 and 2: Llama whose embeddings, residuals and logits are scaled so that sizes of models share
// their settings (muP). MiniCPM 3: the same with latent attention.
#include <cmath>

#include "models/arch/arch.h"

namespace quire {
namespace {

// What absent fields mean.
struct Scales {
  double embedding = 1.0;
  double depth = 1.0;
  double base = 1.0;
};

void read_scales(const ConfigReader& config, ArchSpec& spec, const Scales& defaults) {
  spec.embedding_multiplier = static_cast<float>(config.number("scale_emb", -1e9, 1e9, defaults.embedding));
  const double layers = std::sqrt(spec.num_layers);
  spec.residual_multiplier =
      static_cast<float>(config.number("scale_depth", -1e9, 1e9, defaults.depth) / layers);
  const double base = config.number("dim_model_base", 1.0, 1e9, defaults.base);
  spec.logit_scale = static_cast<float>(base / static_cast<double>(spec.hidden_size));
}

}  // namespace

ArchSpec parse_minicpm(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.tie_word_embeddings = true});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-6));
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  if (config.integer("num_experts", 0, kMaxExperts, 0) > 0) config.fail("num_experts", "is not supported");
  read_scales(config, spec, {});
  return spec;
}

ArchSpec parse_minicpm3(const ConfigReader& config) {
  const int64_t value =
      config.integer("hidden_size", 1, kMaxSize) / config.integer("num_attention_heads", 1, 1 << 16);
  ArchSpec spec = parse_latent_family(config, {.max_position_embeddings = 32768,
                                               .interleaved = false,
                                               .value = static_cast<int32_t>(value),
                                               .tie_word_embeddings = true});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-5));
  read_scales(config, spec, {.embedding = 12.0, .depth = 1.4, .base = 256.0});
  return spec;
}

}  // namespace quire
