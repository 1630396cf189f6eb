// Qwen3: Llama with an RMS norm on each query and key head, and a head_dim of its own.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {
namespace {

constexpr auto kModules = joined(kLlamaMatrices, kLlamaNorms, kQkNorms);

}  // namespace

ArchSpec parse_qwen3(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.head_dim = 128, .max_position_embeddings = 32768});
  spec.qkv_bias = config.boolean("attention_bias", false);
  spec.out_bias = spec.qkv_bias;
  spec.qk_norm = QkNorm::kHeads;
  read_qwen_windows(config, spec);
  return spec;
}

WeightNames qwen3_weight_names() {
  return {kModelPrefixes, kModules, {}};
}

}  // namespace quire
