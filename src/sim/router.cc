#include "sim/router.h"

#include <algorithm>
#include <limits>

#include "base/rng.h"

namespace quire::sim {

namespace {

int32_t least_loaded(std::span<const ReplicaLoad> loads, int64_t turn) {
  // Start at a different replica each time, so that ties are spread evenly.
  const size_t n = loads.size();
  size_t best = static_cast<size_t>(turn) % n;
  for (size_t i = 1; i < n; ++i) {
    const size_t at = (static_cast<size_t>(turn) + i) % n;
    if (loads[at].num_open < loads[best].num_open) best = at;
  }
  return static_cast<int32_t>(best);
}

}  // namespace

Router::Router(Routing routing, int32_t num_replicas, int64_t cache_blocks)
    : routing_(routing),
      cache_blocks_(std::max<int64_t>(1, cache_blocks)),
      known_(static_cast<size_t>(num_replicas)) {}

Choice Router::choose(const Trace& trace, const TraceRequest& request, std::span<const ReplicaLoad> loads) {
  const int64_t turn = num_routed_++;
  switch (routing_) {
    case Routing::kRoundRobin:
      return {static_cast<int32_t>(turn % static_cast<int64_t>(loads.size())), request.input_len};
    case Routing::kLeastLoaded:
      return {least_loaded(loads, turn), request.input_len};
    case Routing::kPrefixAware:
      break;
  }
  return choose_by_prefix(trace, request, loads);
}

Choice Router::choose_by_prefix(const Trace& trace, const TraceRequest& request,
                                std::span<const ReplicaLoad> loads) {
  prefixes_.clear();
  uint64_t name = static_cast<uint64_t>(request.adapter);
  for (uint32_t i = 0; i < request.num_hashes; ++i) {
    name = mix64(name ^ mix64(static_cast<uint64_t>(trace.hash_ids[request.first_hash + i]) + 1));
    prefixes_.push_back(name);
  }
  Choice choice;
  int64_t min_tokens = std::numeric_limits<int64_t>::max();
  for (size_t i = 0; i < loads.size(); ++i) {
    // Start at a different replica each time, so that ties are spread evenly.
    const size_t r = (static_cast<size_t>(num_routed_) + i) % loads.size();
    size_t length = 0;
    while (length < prefixes_.size() && known_[r].contains(prefixes_[length])) ++length;
    const int64_t tokens =
        std::max<int64_t>(1, request.input_len - static_cast<int64_t>(length) * Trace::kTokensPerHash);
    // Each running request computes one token per step in the meantime.
    const int64_t work = loads[r].waiting_tokens + loads[r].num_open + tokens;
    if (work >= min_tokens) continue;
    min_tokens = work;
    choice = {static_cast<int32_t>(r), tokens};
  }
  remember(known_[static_cast<size_t>(choice.replica)]);
  return choice;
}

void Router::remember(Known& known) {
  for (const uint64_t prefix : prefixes_) known[prefix] = num_routed_;
  if (static_cast<int64_t>(known.size()) <= cache_blocks_) return;
  // Drop the older half, because the cache evicts the least recently used blocks first.
  std::vector<int64_t> ages;
  ages.reserve(known.size());
  for (const auto& [prefix, age] : known) ages.push_back(age);
  const auto middle = ages.begin() + static_cast<ptrdiff_t>(ages.size() / 2);
  std::nth_element(ages.begin(), middle, ages.end());
  const int64_t oldest = *middle;
  std::erase_if(known, [oldest](const auto& entry) { return entry.second < oldest; });
}

}  // namespace quire::sim
