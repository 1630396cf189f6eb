// The LoRA adapters that requests can name: registers, replaces and unregisters them while the engine runs.
// Registering reads the configuration and the header of the weights; the weights are read when a request
// needs them (engine/adapter_store.h). Owned by the engine; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "contract/engine_config.h"
#include "engine/adapter_store.h"
#include "engine/engine_types.h"
#include "exec/local_runtime.h"

namespace quire {

class AdapterRegistry {
 public:
  // Registers the adapters of the configuration. Throws Error if one of them cannot be applied in full, or is
  // larger than --lora-memory. `runtime` outlives this.
  AdapterRegistry(LocalRuntime& runtime, const ModelInfo& model, const EngineConfig& config);

  // Reads the header of an adapter on the calling thread. Requests may name it when this returns. replace: an
  // adapter of that name may exist; requests that named it keep it. Fails with kNotFound if the path does not
  // exist, and with kInvalidArgument if the name is taken, or the adapter cannot be applied in full or is
  // larger than the memory for all.
  Status load(const LoraModule& module, bool replace = false);
  // No new request may name it; its memory is released when the last request that uses it has ended. Fails
  // with kNotFound if there is no such adapter.
  Status unload(std::string_view name);

  std::vector<AdapterDescription> list() const;  // in order of registration
  std::optional<AdapterDescription> find(std::string_view name) const;
  // The message for a name that find() does not know.
  std::string not_found(std::string_view name) const;

  // Makes sure that requests can name the adapter: registers it if it is a subdirectory of --lora-dir. Fails
  // with kNotFound if there is no adapter of that name, and as load() does.
  Status require(std::string_view name);
  // The same, and its weights for a request; null if they have to be loaded before it can run.
  struct Acquired {
    SharedAdapterVersion version;
    AdapterRef ref;
  };
  Result<Acquired> acquire(std::string_view name);

  // Loads weights from now on; see AdapterStore::start. stop() ends that.
  void start(std::function<void()> on_outcome, std::function<void(const std::string&)> before_read);
  void stop() { store_.stop(); }
  AdapterStore& store() { return store_; }

  bool enabled() const { return memory_ > 0; }
  int64_t memory() const { return memory_; }  // the most that adapters may take; 0 = there can be none

 private:
  struct NameHash {
    using is_transparent = void;
    size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
  };

  Status add(const LoraModule& module, bool replace, bool found_in_directory);
  void log_adapter(std::string_view name) const;
  Status check_name(const std::string& name, bool replace) const;
  Result<SharedAdapterVersion> resolve(std::string_view name);
  Result<AdapterStore::Contents> read(const AdapterVersion& version);
  SharedAdapterVersion registered(std::string_view name) const;  // null if there is none

  // Needs mutex_.
  Status check_free(const std::string& name, bool replace) const;

  LocalRuntime& runtime_;
  const std::string base_name_;
  const std::string base_path_;
  const int64_t max_rank_;
  const std::string directory_;  // --lora-dir; empty = none
  int64_t memory_ = 0;
  AdapterStore store_;

  mutable std::mutex mutex_;  // may be held while the store is called
  std::unordered_map<std::string, SharedAdapterVersion, NameHash, std::equal_to<>> by_name_;
  int64_t last_id_ = 0;
};

}  // namespace quire
