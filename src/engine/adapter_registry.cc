#include "engine/adapter_registry.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "base/listed.h"
#include "base/log.h"
#include "base/strings.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

// Memory of adapters unless --lora-memory gives another.
constexpr int64_t kDefaultMemory = int64_t{256} << 20;
constexpr int64_t kDefaultResident = 32;  // number of the largest of --lora-modules that have room
constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxLogged = 10;  // adapters with a line of their own at the start

// The configuration of an adapter in a directory; none if it has no such file. Defects of the file are
// reported when it is read.
std::optional<FileIdentity> config_identity(const fs::path& directory) {
  const fs::path file = directory / "adapter_config.json";
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return std::nullopt;
  try {
    return identity_of(open_regular_file(file), file);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The adapter `name` in a directory, a subdirectory or NAME.gguf, with links resolved; empty if there is none
// below it.
std::string adapter_below(const std::string& directory, std::string_view name) {
  if (directory.empty() || name.empty() || name.size() > kMaxNameBytes || name.front() == '.' ||
      name.find('/') != std::string_view::npos || name.find('\0') != std::string_view::npos)
    return {};
  std::error_code error;
  const fs::path top = fs::canonical(directory, error);
  if (error) return {};
  fs::path path = fs::canonical(top / name, error);
  if (error || !fs::is_directory(path, error)) {
    path = fs::canonical(top / cat(name, ".gguf"), error);
    if (error || !fs::is_regular_file(path, error)) return {};
  }
  if (path == top) return {};
  const bool below = std::mismatch(top.begin(), top.end(), path.begin(), path.end()).first == top.end();
  return below ? path.string() : std::string();
}

AdapterDescription describe(const AdapterVersion& version, AdapterState state) {
  return {.name = version.name,
          .path = version.path,
          .rank = version.rank,
          .bytes = version.bytes,
          .state = state};
}

}  // namespace

AdapterRegistry::AdapterRegistry(LocalRuntime& runtime, const ModelInfo& model, const EngineConfig& config)
    : runtime_(runtime),
      base_name_(model.name),
      base_path_(model.path),
      max_rank_(config.max_lora_rank),
      directory_(config.lora_dir),
      store_([this](const AdapterVersion& version) { return read(version); }) {
  if (!config.enable_lora && config.lora_modules.empty() && config.lora_dir.empty()) return;
  if (std::error_code error; !directory_.empty() && !fs::is_directory(directory_, error))
    throw Error(cat("--lora-dir ", directory_, ": there is no such directory"));
  memory_ = config.lora_memory > 0 ? config.lora_memory : std::numeric_limits<int64_t>::max();
  int64_t sum = 0;
  int64_t largest = 0;
  for (const LoraModule& module : config.lora_modules) {
    if (Status status = add(module, false, false); !status.ok())
      throw Error(cat("--lora-modules ", module.name, ": ", status.failure().message));
    const int64_t bytes = registered(module.name)->bytes;
    sum += bytes;
    largest = std::max(largest, bytes);
    if (config.lora_modules.size() <= kMaxLogged) log_adapter(module.name);
  }
  if (config.lora_modules.size() > kMaxLogged)
    log_info(config.lora_modules.size(), " adapters, ", format_bytes(sum), "; the largest takes ",
             format_bytes(largest));
  if (config.lora_memory == 0) memory_ = std::max(kDefaultMemory, std::min(sum, kDefaultResident * largest));
  store_.set_limits({.bytes = memory_, .adapters = config.max_cpu_loras});
}

void AdapterRegistry::start(std::function<void()> on_outcome,
                            std::function<void(const std::string&)> before_read) {
  if (!enabled()) return;
  store_.start(std::move(on_outcome), std::move(before_read));
}

SharedAdapterVersion AdapterRegistry::registered(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

Status AdapterRegistry::check_free(const std::string& name, bool replace) const {
  if (replace || !by_name_.contains(name)) return {};
  return invalid_argument(cat("There is already an adapter '", name, "'."), "lora_name");
}

Status AdapterRegistry::check_name(const std::string& name, bool replace) const {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return invalid_argument(cat("The name of an adapter must have 1 to ", kMaxNameBytes, " bytes."),
                            "lora_name");
  }
  if (name == base_name_ || name == base_path_)
    return invalid_argument(cat("'", name, "' is the name of the base model."), "lora_name");
  const std::lock_guard lock(mutex_);
  return check_free(name, replace);
}

void AdapterRegistry::log_adapter(std::string_view name) const {
  if (const SharedAdapterVersion version = registered(name))
    log_info("adapter ", name, ": rank ", version->rank, ", ", format_bytes(version->bytes));
}

Status AdapterRegistry::load(const LoraModule& module, bool replace) {
  Status added = add(module, replace, false);
  if (added.ok()) log_adapter(module.name);
  return added;
}

Status AdapterRegistry::add(const LoraModule& module, bool replace, bool found_in_directory) {
  if (!enabled()) {
    return Failure{ErrorKind::kUnsupported, "Adapters are not enabled; start with --enable-lora.",
                   "lora_name"};
  }
  if (Status status = check_name(module.name, replace); !status.ok()) return status;
  auto version = std::make_shared<AdapterVersion>();
  // Before the file is read: if it changes meanwhile, loading notices.
  version->config_file = config_identity(module.path);
  const auto examined = runtime_.examine_adapter({.name = module.name, .path = module.path},
                                                 {.max_rank = max_rank_, .base_name = base_name_});
  if (!examined.ok()) return examined.failure();
  if (examined->bytes > memory_) {
    return invalid_argument(cat("The adapter '", module.name, "' takes ", format_bytes(examined->bytes),
                                ", all adapters may take ", format_bytes(memory_), " (--lora-memory)."),
                            "lora_path");
  }
  version->name = module.name;
  version->path = module.path;
  version->rank = examined->max_rank;
  version->bytes = examined->bytes;
  version->weights_file = examined->identity;
  version->found_in_directory = found_in_directory;
  {
    const std::lock_guard lock(mutex_);
    // Another thread may have registered one of this name.
    if (Status status = check_free(module.name, replace); !status.ok()) return status;
    version->id = ++last_id_;
    SharedAdapterVersion& entry = by_name_[module.name];
    if (entry != nullptr) store_.forget(*entry);
    entry = version;
  }
  for (const std::string& warning : examined->warnings) log_warning("adapter ", module.name, ": ", warning);
  return {};
}

Status AdapterRegistry::unload(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto found = by_name_.find(name);
  if (found == by_name_.end())
    return Failure{ErrorKind::kNotFound, cat("There is no adapter '", name.substr(0, kMaxNameBytes), "'."),
                   "lora_name"};
  store_.forget(*found->second);
  log_info("adapter ", found->first, " is unloaded");
  by_name_.erase(found);
  return {};
}

std::vector<AdapterDescription> AdapterRegistry::list() const {
  std::vector<SharedAdapterVersion> versions;
  {
    const std::lock_guard lock(mutex_);
    versions.reserve(by_name_.size());
    for (const auto& [name, version] : by_name_) versions.push_back(version);
  }
  std::ranges::sort(versions, {}, [](const SharedAdapterVersion& version) { return version->id; });
  std::vector<AdapterDescription> all;
  all.reserve(versions.size());
  for (const SharedAdapterVersion& version : versions)
    all.push_back(describe(*version, store_.state(*version)));
  return all;
}

std::optional<AdapterDescription> AdapterRegistry::find(std::string_view name) const {
  const SharedAdapterVersion version = registered(name);
  if (version == nullptr) return std::nullopt;
  return describe(*version, store_.state(*version));
}

std::string AdapterRegistry::not_found(std::string_view name) const {
  std::vector<std::string> names;
  for (const AdapterDescription& adapter : list()) names.push_back(adapter.name);
  return cat("There is no adapter '", name.substr(0, kMaxNameBytes), "'",
             names.empty() ? std::string("; --lora-modules NAME=PATH adds adapters.")
                           : cat("; available: ", listed(names), "."));
}

Result<SharedAdapterVersion> AdapterRegistry::resolve(std::string_view name) {
  if (SharedAdapterVersion known = registered(name)) return known;
  const std::string path = adapter_below(directory_, name);
  if (path.empty()) return Failure{ErrorKind::kNotFound, not_found(name), "model"};
  Status added = add({std::string(name), path}, false, true);
  if (added.ok()) log_adapter(name);
  // Another request may have been first.
  if (SharedAdapterVersion known = registered(name)) return known;
  if (added.ok()) return Failure{ErrorKind::kNotFound, not_found(name), "model"};  // unloaded meanwhile
  Failure failure = added.failure();
  failure.param = "model";
  return failure;
}

Status AdapterRegistry::require(std::string_view name) {
  const auto version = resolve(name);
  return version.ok() ? Status() : Status(version.failure());
}

Result<AdapterRegistry::Acquired> AdapterRegistry::acquire(std::string_view name) {
  for (bool again = false;; again = true) {
    auto version = resolve(name);
    if (!version.ok()) return version.failure();
    Result<AdapterRef> ref = store_.acquire(**version);
    if (ref.ok()) return Acquired{std::move(*version), std::move(*ref)};
    // Nobody loads an adapter of the directory again, so a request does, once.
    if (again || !(*version)->found_in_directory) return ref.failure();
    const std::lock_guard lock(mutex_);
    const auto found = by_name_.find(name);
    if (found != by_name_.end() && found->second == *version) {
      store_.forget(**version);
      by_name_.erase(found);
    }
  }
}

Result<AdapterStore::Contents> AdapterRegistry::read(const AdapterVersion& version) {
  auto loaded = runtime_.read_adapter(
      {.name = version.name, .path = version.path},
      {.max_rank = max_rank_, .base_name = base_name_, .identity = version.weights_file});
  if (!loaded.ok()) return loaded.failure();
  if (config_identity(version.path) != version.config_file)
    return invalid_argument(cat("adapter '", version.name, "' (", version.path,
                                "): adapter_config.json has changed on disk; load the adapter again"));
  return AdapterStore::Contents{std::move(loaded->weights), std::move(loaded->digest), loaded->info.bytes};
}

}  // namespace quire
