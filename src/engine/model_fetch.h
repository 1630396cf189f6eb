// Models by name: finds the files of "org/name" in the Hugging Face cache or downloads them.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "hub/pull.h"

namespace quire {

// The name if `model` is one; nullopt if a file or directory of this name exists, or the text is not a name.
std::optional<hub::ModelName> model_name_of(const std::string& model);

// hub::pull() with the settings of the environment. Before weights are downloaded, check_model_files()
// rejects a model that cannot be run. An empty revision is "main".
hub::PulledModel fetch_model(const hub::ModelName& name, hub::PullOptions options,
                             const std::function<void(const hub::PullProgress&)>& progress);

// Throws Error if the architecture, the quantization method or the type of a tensor is not supported, or a
// header is malformed. Reads the configuration and the headers of the weights only; a model directory or a
// (first) GGUF file.
void check_model_files(const std::filesystem::path& path);

}  // namespace quire
