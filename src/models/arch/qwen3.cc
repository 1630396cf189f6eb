// Qwen3: Llama with QK norm per head and a separate head_dim.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kQwen3Modules = joined(kLlamaMatrices, kLlamaNorms, kQkNorms);

ModelSpec parse_qwen3(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.head_dim = 128, .max_position_embeddings = 32768});
  set_attention_bias(spec, config.boolean("attention_bias", false));
  set_qk_norm(spec, QkNorm::kHeads);
  read_qwen_windows(config, spec);
  return spec;
}

WeightNames qwen3_weight_names() {
  return {kModelPrefixes, kQwen3Modules, {}};
}

}  // namespace

std::span<const Architecture> qwen3_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Qwen3ForCausalLM", "qwen3", parse_qwen3, qwen3_weight_names},
  };
  return kRows;
}

}  // namespace quire
