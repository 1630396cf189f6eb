#include "backends/open_device.h"

#include "backends/cpu/cpu_device.h"
#include "base/error.h"
#include "base/strings.h"

namespace quire {

const std::vector<std::string>& device_names() {
  static const std::vector<std::string> names = {"auto", "cpu"};
  return names;
}

std::unique_ptr<Device> open_device(std::string_view name, int threads) {
  if (name == "auto" || name == "cpu") return std::make_unique<CpuDevice>(threads);
  throw Error(cat("--device: '", name, "' is not known; use ", join(device_names(), " or ")));
}

}  // namespace quire
