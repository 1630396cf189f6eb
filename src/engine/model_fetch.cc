#include "engine/model_fetch.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/strings.h"
#include "exec/local_runtime.h"
#include "hub/cache.h"
#include "hub/http_client.h"
#include "io/json_file.h"
#include "io/mapped_file.h"
#include "io/quantized/quantized_checkpoint.h"
#include "io/safetensors.h"

namespace quire {
namespace {

// The model in the cache whose name without the organization is `text`, if there is exactly one.
std::optional<hub::ModelName> cached_name(const std::string& text) {
  if (!hub::is_repo_id("org/" + text)) return std::nullopt;
  std::optional<hub::ModelName> found;
  for (const hub::CachedRepo& repo : hub::cached_repos(hub::read_settings().cache)) {
    if (lowercase(repo.repo.substr(repo.repo.find('/') + 1)) != lowercase(text)) continue;
    if (found) return std::nullopt;
    found = hub::parse_model_name(repo.repo);
  }
  return found;
}

}  // namespace

std::optional<hub::ModelName> model_name_of(const std::string& model) {
  std::error_code error;
  if (model.empty() || std::filesystem::exists(model, error)) return std::nullopt;
  const auto name = hub::parse_model_name(model);
  return name || model.find('/') != std::string::npos ? name : cached_name(model);
}

std::string similar_paths_text(const std::string& path) {
  const std::filesystem::path given(path);
  const std::filesystem::path parent = given.parent_path();
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(parent.empty() ? "." : parent, error))
    names.push_back(entry.path().filename().string());
  const std::vector<std::string> similar = hub::similar_names(given.filename().string(), names, 1);
  return similar.empty() ? std::string() : cat("; did you mean ", (parent / similar.front()).string(), "?");
}

hub::PulledModel fetch_model_or_path(const std::string& model, const hub::ModelName& name,
                                     hub::PullOptions options,
                                     const std::function<void(const hub::PullProgress&)>& progress) {
  return or_missing_path(model, [&] { return fetch_model(name, std::move(options), progress); });
}

hub::PulledModel or_missing_path(const std::string& model, const std::function<hub::PulledModel()>& pull) {
  const auto fail = [&](const char* reason) {
    throw Error(cat("there is no file or directory ", model, ", and on the hub: ", reason,
                    similar_paths_text(model)));
  };
  try {
    return pull();
  } catch (const hub::ModelNotFound& error) {
    fail(error.what());
  } catch (const hub::HttpError& error) {
    fail(error.what());
  }
  return {};
}

hub::PulledModel fetch_model(const hub::ModelName& name, hub::PullOptions options,
                             const std::function<void(const hub::PullProgress&)>& progress) {
  if (options.revision.empty()) options.revision = "main";
  return hub::pull(hub::read_settings(), name, options, {progress, check_model_files});
}

void check_model_files(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) {
    read_spec(*Checkpoint::open(path), Runner::kAuto);
    return;
  }
  const nlohmann::json config = read_json_file(path / "config.json");
  parse_model(config);
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() != ".safetensors") continue;
    const MappedFile file(entry.path());
    Safetensors(file.bytes(), entry.path().string());
  }
  if (require_known_quantization(config, path) || std::filesystem::exists(path / "quantize_config.json")) {
    return;  // the readers of quantized checkpoints read the content of tensors
  }
  read_spec(*Checkpoint::open(path), Runner::kAuto);
}

}  // namespace quire
