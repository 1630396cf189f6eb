// The LoRA adapters that requests can name: loads, replaces and unloads them while the engine runs. Owned by
// the engine; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "contract/engine_config.h"
#include "engine/engine_types.h"
#include "exec/local_runtime.h"

namespace quire {

class AdapterRegistry {
 public:
  // Loads the adapters of the configuration. Throws Error if one of them cannot be applied in full, or if
  // they take more than --lora-memory. `runtime` outlives this.
  AdapterRegistry(LocalRuntime& runtime, const ModelInfo& model, const EngineConfig& config);

  // Reads an adapter on the calling thread. Requests may name it when this returns. replace: an adapter of
  // that name may exist; requests that use it keep it. Fails with kNotFound if the path does not exist, and
  // with kInvalidArgument if the name is taken, the adapter cannot be applied in full or does not fit into
  // the memory.
  Status load(const LoraModule& module, bool replace = false);
  // No new request may name it; its memory is released when the last request that uses it has ended. Fails
  // with kNotFound if there is no such adapter.
  Status unload(std::string_view name);

  std::vector<AdapterDescription> list() const;  // in order of loading
  std::optional<AdapterDescription> find(std::string_view name) const;
  // The message for a name that find() does not know.
  std::string not_found(std::string_view name) const;

  int64_t memory() const { return memory_; }  // the most that adapters may take; 0 = there can be none
  int64_t used() const;                       // of that, including unloaded ones that requests still use

 private:
  Status check_name(const std::string& name, bool replace) const;

  // The following need mutex_.
  std::vector<AdapterDescription>::const_iterator locate(std::string_view name) const;
  Status check_free(const std::string& name, bool replace) const;
  int64_t used_locked() const;

  LocalRuntime& runtime_;
  const std::string base_name_;
  const std::string base_path_;
  const int64_t max_rank_;
  int64_t memory_ = 0;

  mutable std::mutex mutex_;
  int32_t last_id_ = 0;
  std::vector<AdapterDescription> adapters_;
  // Everything that was loaded, with its bytes; expired ones are removed by the next load.
  std::vector<std::pair<std::weak_ptr<const AdapterWeights>, int64_t>> resident_;
};

}  // namespace quire
