#include "base/available_memory.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/cgroup.h"
#include "base/log.h"
#include "base/strings.h"

namespace quire {

AvailableMemory available_memory() {
  AvailableMemory memory;
  struct sysinfo info {};
  if (::sysinfo(&info) == 0) {
    memory.total_bytes = static_cast<int64_t>(info.totalram * info.mem_unit);
    memory.bytes = static_cast<int64_t>((info.freeram + info.bufferram) * info.mem_unit);
  }
  memory.exact = false;
  std::ifstream meminfo("/proc/meminfo");
  std::string line;
  while (std::getline(meminfo, line)) {
    if (line.rfind("MemAvailable:", 0) != 0) continue;
    memory.bytes = std::stoll(line.substr(13)) * 1024;
    memory.exact = true;
  }
  if (!memory.exact) {
    log_warning("/proc/meminfo has no MemAvailable, so that the memory of the page cache counts as used; ",
                format_bytes(memory.bytes), " are free. --kv-cache-memory sets the memory of the KV cache");
  }
  if (const auto of_group = cgroup_free_memory()) memory.bytes = std::min(memory.bytes, *of_group);
  return memory;
}

}  // namespace quire
