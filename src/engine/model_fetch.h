// Models by name: finds the files of "org/name" in the Hugging Face cache or downloads them.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "hub/pull.h"

namespace quire {

// The name if `model` is one: org/name, or the part after "org/" of the only such model in the cache. nullopt
// if a file or directory of this name exists, or the text is not a name.
std::optional<hub::ModelName> model_name_of(const std::string& model);

// "; did you mean DIR/NAME?" with the names in the directory of a path that does not exist; empty if none is
// similar.
std::string similar_paths_text(const std::string& path);

// hub::pull() with the settings of the environment. Before weights are downloaded, check_model_files()
// rejects a model that cannot be run. An empty revision is "main".
hub::PulledModel fetch_model(const hub::ModelName& name, hub::PullOptions options,
                             const std::function<void(const hub::PullProgress&)>& progress);
// The same for a model that could also be a path. The error also says that there is no such path.
hub::PulledModel fetch_model_or_path(const std::string& model, const hub::ModelName& name,
                                     hub::PullOptions options,
                                     const std::function<void(const hub::PullProgress&)>& progress);
// Returns pull(). If it finds no model, the error also says that there is no path `model`.
hub::PulledModel or_missing_path(const std::string& model, const std::function<hub::PulledModel()>& pull);

// Throws Error if the architecture, the quantization method or the type of a tensor is not supported, or a
// header is malformed. Reads the configuration and the headers of the weights only; a model directory or a
// (first) GGUF file.
void check_model_files(const std::filesystem::path& path);

}  // namespace quire
