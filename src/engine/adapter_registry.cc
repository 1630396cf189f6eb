#include "engine/adapter_registry.h"

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "base/strings.h"

namespace quire {
namespace {

// Memory of adapters unless --lora-memory gives another.
constexpr int64_t kDefaultMemory = int64_t{256} << 20;

}  // namespace

AdapterRegistry::AdapterRegistry(LocalRuntime& runtime, const ModelInfo& model, const EngineConfig& config)
    : runtime_(runtime), base_name_(model.name), base_path_(model.path), max_rank_(config.max_lora_rank) {
  if (!config.enable_lora && config.lora_modules.empty()) return;
  const bool chosen = config.lora_memory > 0;
  memory_ = chosen ? config.lora_memory : std::numeric_limits<int64_t>::max();
  for (const LoraModule& module : config.lora_modules) {
    if (Status status = load(module); !status.ok())
      throw Error(cat("--lora-modules ", module.name, ": ", status.failure().message));
  }
  if (!chosen) memory_ = std::max(kDefaultMemory, used());
}

std::vector<AdapterDescription>::const_iterator AdapterRegistry::locate(std::string_view name) const {
  return std::ranges::find(adapters_, name, &AdapterDescription::name);
}

Status AdapterRegistry::check_free(const std::string& name, bool replace) const {
  if (replace || locate(name) == adapters_.end()) return {};
  return invalid_argument(cat("There is already an adapter '", name, "'."), "lora_name");
}

Status AdapterRegistry::check_name(const std::string& name, bool replace) const {
  constexpr size_t kMaxNameBytes = 256;
  if (name.empty() || name.size() > kMaxNameBytes) {
    return invalid_argument(cat("The name of an adapter must have 1 to ", kMaxNameBytes, " bytes."),
                            "lora_name");
  }
  if (name == base_name_ || name == base_path_)
    return invalid_argument(cat("'", name, "' is the name of the base model."), "lora_name");
  const std::lock_guard lock(mutex_);
  return check_free(name, replace);
}

Status AdapterRegistry::load(const LoraModule& module, bool replace) {
  if (memory_ == 0) {
    return Failure{ErrorKind::kUnsupported, "Adapters are not enabled; start with --enable-lora.",
                   "lora_name"};
  }
  if (Status status = check_name(module.name, replace); !status.ok()) return status;
  auto loaded = runtime_.read_adapter({.name = module.name, .path = module.path},
                                      {.max_rank = max_rank_, .base_name = base_name_});
  if (!loaded.ok()) return loaded.failure();
  const lora::AdapterInfo& info = loaded->info;
  AdapterDescription added{
      .name = module.name, .path = module.path, .rank = info.max_rank, .bytes = info.bytes};
  added.ref.digest = std::move(loaded->digest);
  {
    const std::lock_guard lock(mutex_);
    // Another thread may have loaded one of this name.
    if (Status status = check_free(module.name, replace); !status.ok()) return status;
    const auto same = std::ranges::find_if(
        adapters_, [&](const AdapterDescription& other) { return other.ref.digest == added.ref.digest; });
    if (same != adapters_.end()) {
      added.ref = same->ref;
    } else {
      const int64_t used = used_locked();
      if (info.bytes > memory_ - used) {
        return invalid_argument(
            cat("The adapter '", module.name, "' takes ", format_bytes(info.bytes), ", the others take ",
                format_bytes(used), " of ", format_bytes(memory_), " (--lora-memory); unload some of them."),
            "lora_path");
      }
      added.ref.id = ++last_id_;
      added.ref.weights = std::move(loaded->weights);
      std::erase_if(resident_, [](const auto& entry) { return entry.first.expired(); });
      resident_.emplace_back(added.ref.weights, info.bytes);
    }
    std::erase_if(adapters_, [&](const AdapterDescription& old) { return old.name == module.name; });
    adapters_.push_back(added);
  }
  log_info("adapter ", added.name, ": rank ", added.rank, ", ", format_bytes(added.bytes));
  for (const std::string& warning : info.warnings) log_warning("adapter ", added.name, ": ", warning);
  return {};
}

Status AdapterRegistry::unload(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = locate(name);
  if (found == adapters_.end())
    return Failure{ErrorKind::kNotFound, cat("There is no adapter '", name.substr(0, 256), "'."),
                   "lora_name"};
  log_info("adapter ", found->name, " is unloaded");
  adapters_.erase(found);
  return {};
}

std::vector<AdapterDescription> AdapterRegistry::list() const {
  const std::lock_guard lock(mutex_);
  return adapters_;
}

std::optional<AdapterDescription> AdapterRegistry::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = locate(name);
  if (found == adapters_.end()) return std::nullopt;
  return *found;
}

std::string AdapterRegistry::not_found(std::string_view name) const {
  std::vector<std::string> names;
  for (const AdapterDescription& adapter : list()) names.push_back(adapter.name);
  return cat("There is no adapter '", name.substr(0, 256), "'",
             names.empty() ? std::string("; --lora-modules NAME=PATH loads adapters.")
                           : cat("; available: ", join(names, ", "), "."));
}

int64_t AdapterRegistry::used() const {
  const std::lock_guard lock(mutex_);
  return used_locked();
}

int64_t AdapterRegistry::used_locked() const {
  int64_t sum = 0;
  for (const auto& [weights, bytes] : resident_) sum += weights.expired() ? 0 : bytes;
  return sum;
}

}  // namespace quire
