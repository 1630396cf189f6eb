#include "exec/inspect_adapter.h"

#include <utility>

#include "models/adapter_targets.h"
#include "models/base_biases.h"
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
  const ModelSpec spec = read_spec(*base, runner);
  const auto biases = [&](std::span<const int32_t> sites) { return read_site_biases(*base, spec, sites); };
  auto loaded = lora::load_adapter(source, adapter_targets(*base, spec), limits,
                                   {.dtype = std::nullopt, .checkpoint = base, .biases = biases});
  if (!loaded.ok()) return loaded.failure();
  return InspectedAdapter{std::move(loaded->info), digest_of(*loaded->adapter)};
}

}  // namespace quire
