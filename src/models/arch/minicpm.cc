// MiniCPM 1 and 2: Llama whose embeddings, residuals and logits are scaled so that sizes of models share
// their settings (muP).
#include <cmath>

#include "models/arch/arch.h"

namespace quire {

ArchSpec parse_minicpm(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.tie_word_embeddings = true});
  spec.norm_eps = static_cast<float>(config.number("rms_norm_eps", 0.0, 1.0, 1e-6));
  spec.qkv_bias = spec.out_bias = config.boolean("attention_bias", false);
  if (config.integer("num_experts", 0, kMaxExperts, 0) > 0) config.fail("num_experts", "is not supported");
  spec.embedding_multiplier = static_cast<float>(config.number("scale_emb", -1e9, 1e9, 1.0));
  spec.residual_multiplier =
      static_cast<float>(config.number("scale_depth", -1e9, 1e9, 1.0) / std::sqrt(spec.num_layers));
  const double base = config.number("dim_model_base", 1.0, 1e9, 1.0);
  spec.logit_scale = static_cast<float>(base / static_cast<double>(spec.hidden_size));
  return spec;
}

}  // namespace quire
