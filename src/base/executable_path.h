// Path of the running program.
#pragma once

#include <filesystem>

namespace quire {

// The absolute path of the file that this process executes: /proc/self/exe or, if /proc is not mounted, the
// path that the process was started with. Empty if the path is unknown or the file no longer exists.
std::filesystem::path executable_path();

}  // namespace quire
