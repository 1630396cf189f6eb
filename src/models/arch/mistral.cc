// Mistral 7B and its successors: Llama with a sliding window in every layer, unless sliding_window is null.
// Ministral: sliding windows in some layers. Ministral 3: attention temperature scaling.
#include "models/arch/arch.h"
#include "models/arch/names.h"

namespace quire {

namespace {

ModelSpec parse_mistral(const ConfigReader& config) {
  constexpr int64_t kDefaultPositions = 4096 * 32;
  ModelSpec spec = parse_llama_family(config, {.head_dim = 0, .max_position_embeddings = kDefaultPositions});
  read_window(config, spec, 4096);
  return spec;
}

ModelSpec parse_ministral(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(config, {.max_position_embeddings = 131072});
  const auto window = static_cast<int32_t>(
      config.integer("sliding_window", 1, kMaxPositions, config.mentions("sliding_window") ? 0 : 4096));
  assign_windows(spec, sliding_layers(config, spec, kMaxLayers + 1), window, 0, 0);
  return spec;
}

}  // namespace

void read_query_scale(const ConfigReader& config, RopeSpec& turned) {
  const ConfigReader rope = config.object(config.has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  turned.query_scale_beta = rope.number("llama_4_scaling_beta", 0.0, 1e6, 0.0);
  turned.query_scale_floor = rope.number("original_max_position_embeddings", 1.0, 1e9, 16384.0);
}

namespace {

ModelSpec parse_ministral3(const ConfigReader& config) {
  ModelSpec spec = parse_llama_family(
      config, {.head_dim = 128, .max_position_embeddings = 262144, .rope = {.theta = 1e6}, .norm_eps = 1e-5});
  spec.max_model_len = spec.max_position_embeddings;  // includes the RoPE scaling
  read_window(config, spec, 0);
  read_query_scale(config, spec.ropes.front());
  return spec;
}

}  // namespace

std::span<const Architecture> mistral_architectures() {
  static constexpr std::array kRows = {
      Architecture{"Ministral3ForCausalLM", "ministral3", parse_ministral3, llama_weight_names},
      Architecture{"MinistralForCausalLM", "ministral", parse_ministral, llama_weight_names},
      Architecture{"MistralForCausalLM", "mistral", parse_mistral, llama_weight_names},
  };
  return kRows;
}

}  // namespace quire
