#include "base/cgroup.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace quire {
namespace {

namespace fs = std::filesystem;

// Version 1 shows an absent limit as the largest multiple of the page size.
constexpr int64_t kNoLimit = int64_t{1} << 60;

// A directory of a control group.
struct Group {
  fs::path folder;
  bool v2 = false;
};

bool names(std::string_view list, std::string_view controller) {
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    if (list.substr(begin, end - begin) == controller) return true;
    begin = end + 1;
  }
  return false;
}

// mountinfo writes spaces and a few other characters as three octal digits: \040.
std::string unescaped(const std::string& text) {
  const auto octal = [&](size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '7'; };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// A mounted hierarchy: `root`, a group, is visible at `point`.
struct Mount {
  std::string root;
  std::string point;
  bool v2 = false;
};

// Mounts of version 2 and of the version 1 hierarchy that has the controller; the usual places if none is
// listed.
std::vector<Mount> read_mounts(const fs::path& file_system, std::string_view controller) {
  std::vector<Mount> mounts;
  std::ifstream file(file_system / "proc/self/mountinfo");
  std::string line;
  while (std::getline(file, line)) {
    // "36 35 0:29 ROOT POINT options [more fields] - TYPE source super-options"
    std::istringstream fields(line);
    std::string skipped;
    std::string root;
    std::string point;
    if (!(fields >> skipped >> skipped >> skipped >> root >> point)) continue;
    while (fields >> skipped && skipped != "-") {
    }
    std::string type;
    std::string options;
    if (!(fields >> type >> skipped >> options)) continue;
    if (type == "cgroup2" || (type == "cgroup" && names(options, controller)))
      mounts.push_back({unescaped(root), unescaped(point), type == "cgroup2"});
  }
  if (mounts.empty())
    mounts = {{"/", "/sys/fs/cgroup/" + std::string(controller), false}, {"/", "/sys/fs/cgroup", true}};
  return mounts;
}

bool contains(const Mount& mount, const std::string& path) {
  return mount.root == "/" || path == mount.root || path.starts_with(mount.root + "/");
}

// The mount that shows most of the groups above `path`; null if there is none. In a container, none may
// contain the path: then what is mounted is the container's own group.
const Mount* mount_of(const std::vector<Mount>& mounts, bool v2, const std::string& path) {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts) {
    if (mount.v2 != v2) continue;
    const bool better =
        best == nullptr ||
        (contains(mount, path) && (!contains(*best, path) || mount.root.size() <= best->root.size()));
    if (better) best = &mount;
  }
  return best;
}

// The groups of this process that have the controller, and all groups above them that are visible.
std::vector<Group> groups_of_process(const fs::path& root, std::string_view controller) {
  const std::vector<Mount> mounts = read_mounts(root, controller);
  std::vector<Group> groups;
  std::ifstream file(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    // "0::/path" (version 2) or "4:cpu,cpuacct:/path" (version 1).
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string_view controllers = std::string_view(line).substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && !names(controllers, controller)) continue;
    std::string path = line.substr(second + 1);
    const Mount* mount = mount_of(mounts, v2, path);
    if (mount == nullptr) continue;
    // "/.." is a group outside of the process's namespace.
    const bool visible = contains(*mount, path) && !path.starts_with("/..");
    path = !visible || path == mount->root ? "" : mount->root == "/" ? path : path.substr(mount->root.size());
    const fs::path point = root / fs::path(mount->point).relative_path();
    for (;; path.resize(path.rfind('/'))) {
      groups.push_back({point / fs::path(path).relative_path(), v2});
      if (path.find('/') == std::string::npos) break;
    }
  }
  return groups;
}

// The first number of a file; nullopt for "max" and for a missing file.
template <typename Number>
std::optional<Number> read_number(const fs::path& path) {
  std::ifstream file(path);
  Number value{};
  return file >> value ? std::optional(value) : std::nullopt;
}

// "name value" in each line.
std::map<std::string, int64_t> read_table(const fs::path& path) {
  std::map<std::string, int64_t> table;
  std::ifstream file(path);
  std::string name;
  int64_t value = 0;
  while (file >> name >> value) table[name] = value;
  return table;
}

template <typename T>
void take_lower(std::optional<T>& lowest, const std::optional<T>& value) {
  if (value && (!lowest || *value < *lowest)) lowest = value;
}

std::optional<double> cpus_of(const Group& group) {
  std::optional<double> quota;
  std::optional<double> period;
  if (group.v2) {
    std::ifstream file(group.folder / "cpu.max");  // "max 100000" or "150000 100000"
    double first = 0.0;
    double second = 0.0;
    if (file >> first >> second) {
      quota = first;
      period = second;
    }
  } else {
    quota = read_number<double>(group.folder / "cpu.cfs_quota_us");
    period = read_number<double>(group.folder / "cpu.cfs_period_us");
  }
  if (!quota || !period || *quota <= 0.0 || *period <= 0.0) return std::nullopt;
  return *quota / *period;
}

std::optional<int64_t> free_memory_of(const Group& group) {
  const auto table = read_table(group.folder / "memory.stat");
  const auto entry = [&](const char* name) {
    const auto at = table.find(name);
    return at == table.end() ? 0 : at->second;
  };
  std::optional<int64_t> limit;
  std::optional<int64_t> used;
  int64_t of_files = 0;
  if (group.v2) {
    limit = read_number<int64_t>(group.folder / "memory.max");
    // Above this a process is not ended, but stopped most of the time.
    take_lower(limit, read_number<int64_t>(group.folder / "memory.high"));
    used = read_number<int64_t>(group.folder / "memory.current");
    of_files = entry("active_file") + entry("inactive_file");
  } else {
    limit = read_number<int64_t>(group.folder / "memory.limit_in_bytes");
    // Groups above may be invisible in a container.
    if (table.contains("hierarchical_memory_limit"))
      take_lower(limit, std::optional(entry("hierarchical_memory_limit")));
    used = read_number<int64_t>(group.folder / "memory.usage_in_bytes");
    of_files = entry("total_active_file") + entry("total_inactive_file");
  }
  if (!limit || !used || *limit >= kNoLimit) return std::nullopt;
  return std::max<int64_t>(0, *limit - *used + of_files);
}

}  // namespace

std::optional<double> cgroup_cpus(const fs::path& root) {
  std::optional<double> lowest;
  for (const Group& group : groups_of_process(root, "cpu")) take_lower(lowest, cpus_of(group));
  return lowest;
}

std::optional<int64_t> cgroup_free_memory(const fs::path& root) {
  std::optional<int64_t> lowest;
  for (const Group& group : groups_of_process(root, "memory")) take_lower(lowest, free_memory_of(group));
  return lowest;
}

}  // namespace quire
