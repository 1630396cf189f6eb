// Mistral 7B and its successors: Llama with a sliding window in every layer, where sliding_window is not
// null.
#include "models/arch/arch.h"

namespace quire {

ArchSpec parse_mistral(const ConfigReader& config) {
  constexpr int64_t kDefaultPositions = 4096 * 32;
  ArchSpec spec = parse_llama_family(config, {.head_dim = 0, .max_position_embeddings = kDefaultPositions});
  // transformers' default holds only where the field is not written; null means no window.
  constexpr int64_t kDefaultWindow = 4096;
  const auto window = static_cast<int32_t>(config.integer(
      "sliding_window", 1, kMaxPositions, config.mentions("sliding_window") ? 0 : kDefaultWindow));
  for (auto& layer : spec.layers) layer.window = window;
  return spec;
}

}  // namespace quire
