#include "base/shard_names.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>
#include <string_view>
#include <utility>

namespace quire {
namespace {

constexpr std::string_view kTail = "-00001-of-00003.safetensors";
constexpr int kMaxShards = 10000;

// The five digits of a number; 0 for anything else.
int number_of(std::string_view digits) {
  int value = 0;
  for (const char c : digits) {
    if (c < '0' || c > '9') return 0;
    value = 10 * value + (c - '0');
  }
  return value;
}

std::string numbered(const std::string& stem, int number, int count) {
  char tail[64];
  std::snprintf(tail, sizeof(tail), "-%05d-of-%05d.safetensors", number, count);
  return stem + tail;
}

}  // namespace

ShardSet shards_without_index(const std::vector<std::string>& files) {
  std::map<std::pair<std::string, int>, std::set<std::string>> sets;  // by stem and number of shards
  for (const std::string& file : files) {
    if (file.size() <= kTail.size()) continue;
    const std::string_view tail = std::string_view(file).substr(file.size() - kTail.size());
    const int count = number_of(tail.substr(10, 5));
    if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".safetensors") continue;
    if (number_of(tail.substr(1, 5)) < 1 || count < number_of(tail.substr(1, 5)) || count > kMaxShards)
      continue;
    sets[{file.substr(0, file.size() - kTail.size()), count}].insert(file);
  }
  auto chosen = sets.begin();
  if (sets.size() > 1)
    chosen = std::ranges::find_if(sets, [](const auto& entry) { return entry.first.first == "model"; });
  ShardSet shards;
  if (chosen == sets.end()) {
    shards.files = files;
    std::ranges::sort(shards.files);
    return shards;
  }
  const auto& [stem, count] = chosen->first;
  for (int n = 1; n <= count; ++n) {
    const std::string name = numbered(stem, n, count);
    (chosen->second.contains(name) ? shards.files : shards.missing).push_back(name);
  }
  return shards;
}

}  // namespace quire
