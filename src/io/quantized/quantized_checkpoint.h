// Checkpoints whose config.json has a quantization_config. Their quantized matrices have the names that the
// weights had before quantization.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "io/checkpoint.h"

namespace quire {

// Returns `files` unchanged if its configuration has no quantization. Throws Error with the unsupported
// method or the tensor.
std::unique_ptr<Checkpoint> with_quantized(std::unique_ptr<Checkpoint> files);
// Same, with a quantization_config from elsewhere: quantize_config.json of old GPTQ checkpoints.
std::unique_ptr<Checkpoint> with_old_quantization(std::unique_ptr<Checkpoint> files, nlohmann::json config);

// Whether the configuration (config.json) names a quantization method. Throws Error if the method is not
// supported; `model` is the path in the message.
bool require_known_quantization(const nlohmann::json& config, const std::filesystem::path& model);

// The quantization method that the configuration (config.json) names, supported or not; empty if there is
// none.
std::string quantization_method(const nlohmann::json& config);

}  // namespace quire
