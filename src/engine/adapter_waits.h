// The requests that wait for the weights of their adapters. They are not in the scheduler, which needs the
// digest of an adapter to look up cached prefixes. Owned by EngineCore; engine thread only.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "contract/request.h"
#include "engine/adapter_store.h"

namespace quire {

class AdapterWaits {
 public:
  struct Waiting {
    Request request;
    int64_t place = 0;  // Scheduler::reserve_place()
  };

  bool empty() const { return by_request_.empty(); }
  int64_t size() const { return static_cast<int64_t>(by_request_.size()); }

  void add(const SharedAdapterVersion& version, Request&& request, int64_t place);
  // Removes the requests that wait for the version, and returns them in order of arrival.
  std::vector<Waiting> take(const SharedAdapterVersion& version);
  // Removes a request. Returns its version if no other waits for that; null otherwise, and for unknown ids.
  SharedAdapterVersion remove(RequestId id);
  // Removes all. Returns the versions.
  std::vector<SharedAdapterVersion> clear();
  // Calls visit(request) for each.
  template <typename Visit>
  void each(const Visit& visit) const {
    for (const auto& [version, waiting] : by_version_) {
      for (const Waiting& one : waiting) visit(one.request);
    }
  }

 private:
  std::unordered_map<SharedAdapterVersion, std::vector<Waiting>> by_version_;
  std::unordered_map<RequestId, SharedAdapterVersion> by_request_;
};

}  // namespace quire
