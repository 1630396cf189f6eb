// Assigns requests to replicas. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/trace.h"

namespace quire::sim {

enum class Routing : uint8_t {
  kRoundRobin,   // cyclic order
  kLeastLoaded,  // the replica with the fewest unfinished requests
  kPrefixAware,  // the replica with the fewest prompt tokens to compute, this prompt's uncached ones included
};

// The load of a replica as the router tracks it.
struct ReplicaLoad {
  int64_t num_open = 0;        // unfinished requests
  int64_t waiting_tokens = 0;  // sum of Choice::tokens over requests without a first token
};

struct Choice {
  int32_t replica = 0;
  int64_t tokens = 0;  // estimated prompt tokens to compute: those not sent to this replica before
};

class Router {
 public:
  // cache_blocks: estimated prefix cache capacity of a replica, in blocks of Trace::kTokensPerHash tokens.
  Router(Routing routing, int32_t num_replicas, int64_t cache_blocks);

  Choice choose(const Trace& trace, const TraceRequest& request, std::span<const ReplicaLoad> loads);

 private:
  // Prompt blocks sent to a replica: hash of the prefix that the block ends -> last request that used it.
  using Known = std::unordered_map<uint64_t, int64_t>;

  Choice choose_by_prefix(const Trace& trace, const TraceRequest& request,
                          std::span<const ReplicaLoad> loads);
  void remember(Known& known);

  Routing routing_;
  int64_t cache_blocks_;
  int64_t num_routed_ = 0;
  std::vector<Known> known_;        // [num_replicas]
  std::vector<uint64_t> prefixes_;  // prefix hashes of the current request
};

}  // namespace quire::sim
