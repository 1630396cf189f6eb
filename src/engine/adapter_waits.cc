#include "engine/adapter_waits.h"

#include <algorithm>

namespace quire {

void AdapterWaits::add(const SharedAdapterVersion& version, Request&& request, int64_t place) {
  by_request_.emplace(request.id, version);
  by_version_[version].push_back({std::move(request), place});
}

std::vector<AdapterWaits::Waiting> AdapterWaits::take(const SharedAdapterVersion& version) {
  const auto found = by_version_.find(version);
  if (found == by_version_.end()) return {};
  std::vector<Waiting> taken = std::move(found->second);
  by_version_.erase(found);
  for (const Waiting& waiting : taken) by_request_.erase(waiting.request.id);
  return taken;
}

SharedAdapterVersion AdapterWaits::remove(RequestId id) {
  const auto found = by_request_.find(id);
  if (found == by_request_.end()) return nullptr;
  SharedAdapterVersion version = std::move(found->second);
  by_request_.erase(found);
  const auto waiting = by_version_.find(version);
  std::erase_if(waiting->second, [&](const Waiting& one) { return one.request.id == id; });
  if (!waiting->second.empty()) return nullptr;
  by_version_.erase(waiting);
  return version;
}

std::vector<SharedAdapterVersion> AdapterWaits::clear() {
  std::vector<SharedAdapterVersion> versions;
  for (const auto& [version, waiting] : by_version_) versions.push_back(version);
  by_version_.clear();
  by_request_.clear();
  return versions;
}

}  // namespace quire
