#include "exec/inspect_adapter.h"

#include <utility>

#include "models/adapter_targets.h"
#include "models/pooling_files.h"
#include "nn/adapter.h"

namespace quire {

Result<InspectedAdapter> inspect_adapter(const lora::AdapterSource& source, const Checkpoint* base,
                                         Runner runner, const lora::AdapterLimits& limits) {
  if (base == nullptr) {
    auto examined = lora::examine_adapter(source, nullptr, limits);
    if (!examined.ok()) return examined.failure();
    return InspectedAdapter{std::move(*examined), ""};
  }
  auto loaded = lora::load_adapter(source, adapter_targets(*base, read_spec(*base, runner)), limits,
                                   {.dtype = std::nullopt, .checkpoint = base});
  if (!loaded.ok()) return loaded.failure();
  return InspectedAdapter{std::move(loaded->info), digest_of(*loaded->adapter)};
}

}  // namespace quire
