// The limits that control groups set for this process: version 1, version 2, or both at once, at the group of
// the process or at any group above it, on a host or in a container. Pure functions over a file system, which
// tests replace by a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace quire {

// CPUs that the quotas allow, the lowest of all groups; nullopt = no quota.
std::optional<double> cgroup_cpus(const std::filesystem::path& root = "/");

// Bytes that can still be allocated before a limit is reached, the lowest of all groups, at least 0; nullopt
// = no limit. The page cache counts as free: the system drops it when memory is needed.
std::optional<int64_t> cgroup_free_memory(const std::filesystem::path& root = "/");

}  // namespace quire
