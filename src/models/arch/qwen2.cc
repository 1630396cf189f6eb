// Qwen2 and Qwen2.5: Llama with biases on queries, keys and values.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {

namespace {

ModelSpec parse_qwen2(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.head_dim = 0, .max_position_embeddings = 32768});
  set_all(spec, &AttentionSpec::qkv_bias, true);
  read_qwen_windows(config, spec);
  return spec;
}

}  // namespace

std::span<const Architecture> qwen2_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Qwen2ForCausalLM", "qwen2", parse_qwen2, llama_weight_names},
  };
  return kRows;
}

}  // namespace quire
