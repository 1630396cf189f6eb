#include "engine/inspect_adapter.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <system_error>
#include <tuple>
#include <utility>

#include "engine/model_source.h"
#include "exec/inspect_adapter.h"
#include "exec/local_runtime.h"
#include "io/gguf/gguf_checkpoint.h"
#include "io/gguf/gguf_header.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

std::vector<AdapterModulesReport> grouped(const std::vector<lora::AdapterModuleInfo>& modules) {
  using Key =
      std::tuple<std::string, std::string, int64_t, int64_t, float, int64_t, int64_t, std::string, bool>;
  std::map<Key, size_t> index;
  std::vector<AdapterModulesReport> groups;
  for (const lora::AdapterModuleInfo& module : modules) {
    const AdapterModulesReport group{.name = module.pattern,
                                     .change = module.change,
                                     .rank = module.rank,
                                     .experts = module.experts,
                                     .scale = module.scale,
                                     .in_features = module.in,
                                     .out_features = module.out,
                                     .dtype = module.dtype,
                                     .bias = module.bias};
    const auto [at, added] =
        index.try_emplace(Key(group.name, group.change, group.rank, group.experts, group.scale,
                              group.in_features, group.out_features, group.dtype, group.bias),
                          groups.size());
    if (added) groups.push_back(group);
    ++groups[at->second].modules;
  }
  return groups;
}

// Whether the directory has one GGUF file, and that is an adapter.
bool has_gguf_adapter(const fs::path& directory) {
  try {
    const fs::path file = find_gguf(directory);
    return !file.empty() && is_gguf_adapter(file);
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool is_adapter(const std::string& path) {
  std::error_code error;
  const auto has = [&](const char* file) { return fs::exists(fs::path(path) / file, error); };
  if (!fs::is_directory(path, error)) return fs::path(path).extension() == ".gguf" && is_gguf_adapter(path);
  if (has("model.safetensors") || has("model.safetensors.index.json")) return false;
  return has("adapter_config.json") || has_gguf_adapter(path);
}

AdapterReport inspect_adapter(const std::string& path, const EngineConfig* base) {
  const lora::AdapterSource source{.name = "", .path = path};
  lora::AdapterLimits limits;
  std::optional<ModelSource> model;
  std::unique_ptr<Checkpoint> checkpoint;
  if (base != nullptr) {
    model = ModelSource::resolve(base->model, {.revision = base->revision});
    checkpoint = model->open_checkpoint();
    limits.base_name = model->name();
  }
  const Runner runner = base == nullptr ? Runner::kAuto : runner_from_name(base->runner);
  auto inspected = inspect_adapter(source, checkpoint.get(), runner, limits);
  if (!inspected.ok()) throw Error(inspected.failure().message);
  lora::AdapterInfo& info = inspected->info;
  return {.path = path,
          .made_for = std::move(info.base_model),
          .peft_version = std::move(info.peft_version),
          .model = limits.base_name,
          .digest = std::move(inspected->digest),
          .max_rank = info.max_rank,
          .bytes = info.bytes,
          .num_modules = static_cast<int64_t>(info.modules.size()),
          .modules = grouped(info.modules),
          .without_effect = std::move(info.without_effect),
          .warnings = std::move(info.warnings)};
}

}  // namespace quire
