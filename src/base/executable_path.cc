#include "base/executable_path.h"

#include <sys/auxv.h>

#include <system_error>

namespace quire {

std::filesystem::path executable_path() {
  std::error_code error;
  std::filesystem::path path = std::filesystem::canonical("/proc/self/exe", error);
  if (!error) return path;
  const auto* started = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  if (started == nullptr) return {};
  path = std::filesystem::canonical(started, error);
  return error ? std::filesystem::path() : path;
}

}  // namespace quire
