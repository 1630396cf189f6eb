// Qwen2 and Qwen2.5: Llama with biases on queries, keys and values.
#include "models/arch/arch.h"

namespace quire {

ArchSpec parse_qwen2(const ConfigReader& config) {
  ArchSpec spec = parse_llama_family(config, {.head_dim = 0, .max_position_embeddings = 32768});
  spec.qkv_bias = true;
  read_qwen_windows(config, spec);
  return spec;
}

}  // namespace quire
