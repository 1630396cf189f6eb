// The names that vLLM gives to the formats of quantized checkpoints, for EngineConfig::quantization.
#pragma once

#include <optional>
#include <string_view>

namespace quire {

// The quant_method of such a format: "awq" for "awq" and for "awq_marlin"; "gguf" for GGUF files. nullopt if
// `name` is not one.
std::optional<std::string_view> checkpoint_quantization(std::string_view name);

}  // namespace quire
