#include "sim/router.h"

#include <algorithm>

#include "base/rng.h"

namespace quire::sim {

namespace {

// A replica with a cached prefix is passed over when it has more open requests than the least loaded one
// times kMaxRatio plus kMaxMore: waiting would cost more than computing the prefix again.
constexpr double kMaxRatio = 1.5;
constexpr int64_t kMaxMore = 8;

int32_t least_loaded(std::span<const int64_t> num_open, int64_t turn) {
  // From another one on each time, so that equal loads take turns.
  const size_t n = num_open.size();
  size_t best = static_cast<size_t>(turn) % n;
  for (size_t i = 1; i < n; ++i) {
    const size_t at = (static_cast<size_t>(turn) + i) % n;
    if (num_open[at] < num_open[best]) best = at;
  }
  return static_cast<int32_t>(best);
}

}  // namespace

Router::Router(Routing routing, int32_t num_replicas, int64_t cache_blocks)
    : routing_(routing),
      cache_blocks_(std::max<int64_t>(1, cache_blocks)),
      known_(static_cast<size_t>(num_replicas)) {}

int32_t Router::choose(const Trace& trace, const TraceRequest& request, std::span<const int64_t> num_open) {
  const int64_t turn = num_routed_++;
  if (num_open.size() == 1) return 0;
  switch (routing_) {
    case Routing::kRoundRobin:
      return static_cast<int32_t>(turn % static_cast<int64_t>(num_open.size()));
    case Routing::kLeastLoaded:
      return least_loaded(num_open, turn);
    case Routing::kPrefixAware:
      return choose_by_prefix(trace, request, num_open);
  }
  return 0;
}

int32_t Router::choose_by_prefix(const Trace& trace, const TraceRequest& request,
                                 std::span<const int64_t> num_open) {
  prefixes_.clear();
  uint64_t name = 0;
  for (uint32_t i = 0; i < request.num_hashes; ++i) {
    name = mix64(name ^ mix64(static_cast<uint64_t>(trace.hash_ids[request.first_hash + i]) + 1));
    prefixes_.push_back(name);
  }
  const int32_t fallback = least_loaded(num_open, num_routed_);
  const double limit = kMaxRatio * static_cast<double>(num_open[static_cast<size_t>(fallback)]) +
                       static_cast<double>(kMaxMore);
  int32_t chosen = fallback;
  size_t longest = 0;
  for (size_t r = 0; r < num_open.size(); ++r) {
    if (static_cast<double>(num_open[r]) > limit) continue;
    size_t length = 0;
    while (length < prefixes_.size() && known_[r].contains(prefixes_[length])) ++length;
    const bool better =
        length > longest || (length == longest && num_open[r] < num_open[static_cast<size_t>(chosen)]);
    if (!better) continue;
    longest = length;
    chosen = static_cast<int32_t>(r);
  }
  if (longest == 0) chosen = fallback;
  remember(known_[static_cast<size_t>(chosen)]);
  return chosen;
}

void Router::remember(Known& known) {
  for (const uint64_t prefix : prefixes_) known[prefix] = num_routed_;
  if (static_cast<int64_t>(known.size()) <= cache_blocks_) return;
  // Forgets the older half: the cache itself reuses its least recently used blocks first.
  std::vector<int64_t> ages;
  ages.reserve(known.size());
  for (const auto& [prefix, age] : known) ages.push_back(age);
  const auto middle = ages.begin() + static_cast<ptrdiff_t>(ages.size() / 2);
  std::nth_element(ages.begin(), middle, ages.end());
  const int64_t oldest = *middle;
  std::erase_if(known, [oldest](const auto& entry) { return entry.second < oldest; });
}

}  // namespace quire::sim
