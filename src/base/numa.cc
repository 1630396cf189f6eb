#include "base/numa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <fstream>
#include <string>

namespace quire {
namespace {

constexpr int kMaxNodes = 1024;

// The list after `key` in a file of "key: value" lines, or the file's first line if the key is empty.
std::optional<std::vector<int>> read_list(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    std::string_view value = std::string_view(line).substr(key.size());
    value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
    return parse_number_list(value);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::vector<int>> parse_number_list(std::string_view text) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    int first = 0;
    auto parsed = std::from_chars(at, end, first);
    if (parsed.ec != std::errc() || first < 0) return std::nullopt;
    int last = first;
    if (parsed.ptr != end && *parsed.ptr == '-') {
      parsed = std::from_chars(parsed.ptr + 1, end, last);
      if (parsed.ec != std::errc()) return std::nullopt;
    }
    if (last < first || last >= kMaxNodes) return std::nullopt;
    for (int n = first; n <= last; ++n) numbers.push_back(n);
    if (parsed.ptr == end) return numbers;
    if (*parsed.ptr != ',') return std::nullopt;
    at = parsed.ptr + 1;
  }
}

std::vector<int> memory_nodes() {
  const auto present = read_list("/sys/devices/system/node/has_memory", "");
  const auto allowed = read_list("/proc/self/status", "Mems_allowed_list:");
  if (!present || !allowed) return {};
  std::vector<int> nodes;
  std::ranges::copy_if(*present, std::back_inserter(nodes),
                       [&](int n) { return std::ranges::find(*allowed, n) != allowed->end(); });
  return nodes;
}

void interleave_pages(void* begin, size_t bytes) {
  static const std::vector<int> nodes = memory_nodes();
  if (nodes.size() < 2) return;
  constexpr int kInterleave = 3;  // MPOL_INTERLEAVE
  constexpr auto kWordBits = static_cast<int>(sizeof(unsigned long) * CHAR_BIT);
  std::array<unsigned long, kMaxNodes / kWordBits> mask{};
  for (const int n : nodes) mask[static_cast<size_t>(n / kWordBits)] |= 1UL << (n % kWordBits);
  // Best effort: containers often forbid the call, and then pages are placed on the node that touches them.
  syscall(SYS_mbind, begin, bytes, kInterleave, mask.data(), static_cast<unsigned long>(kMaxNodes) + 1, 0UL);
}

}  // namespace quire
