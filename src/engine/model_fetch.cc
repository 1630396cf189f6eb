#include "engine/model_fetch.h"

#include <nlohmann/json.hpp>

#include "exec/local_runtime.h"
#include "io/json_file.h"
#include "io/mapped_file.h"
#include "io/quantized/quantized_checkpoint.h"
#include "io/safetensors.h"

namespace quire {

std::optional<hub::ModelName> model_name_of(const std::string& model) {
  std::error_code error;
  if (model.empty() || std::filesystem::exists(model, error)) return std::nullopt;
  return hub::parse_model_name(model);
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
