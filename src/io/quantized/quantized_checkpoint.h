// Checkpoints whose config.json has a quantization_config: their codes as matrices under the names that the
// weights had before they were quantized.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "io/checkpoint.h"

namespace quire {

// The checkpoint itself where its configuration names no quantization. Throws Error that names the method
// where there is no reader for it, or the tensor at fault.
std::unique_ptr<Checkpoint> with_quantized(std::unique_ptr<Checkpoint> files);
// The same with a quantization_config from elsewhere (quantize_config.json of old GPTQ checkpoints).
std::unique_ptr<Checkpoint> with_quantized(std::unique_ptr<Checkpoint> files, const nlohmann::json& config);

}  // namespace quire
