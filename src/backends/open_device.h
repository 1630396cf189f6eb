// The devices of this build, by the names of --device.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "device/device.h"

namespace quire {

// "auto" and the name of each device.
const std::vector<std::string>& device_names();

// auto: the CPU. threads of the host: 0 = the physical cores available to this process. Throws Error with the
// known names if there is no such device.
std::unique_ptr<Device> open_device(std::string_view name, int threads);

}  // namespace quire
