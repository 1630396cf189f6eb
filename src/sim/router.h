// Which replica gets a request. Used by one thread.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/trace.h"

namespace quire::sim {

enum class Routing : uint8_t {
  kRoundRobin,   // in turn
  kLeastLoaded,  // to the one with the fewest requests that have not ended
  kPrefixAware,  // to the one that has the fewest prompt tokens to compute until this prompt is
};

// What a router knows of a replica.
struct ReplicaLoad {
  int64_t num_open = 0;        // requests that have not ended
  int64_t waiting_tokens = 0;  // sum of Choice::tokens of those that have no token yet
};

struct Choice {
  int32_t replica = 0;
  int64_t tokens = 0;  // of the prompt that the replica is taken to compute: those it was not sent before
};

class Router {
 public:
  // cache_blocks: how many prompt blocks of Trace::kTokensPerHash tokens a replica's cache is taken to keep.
  Router(Routing routing, int32_t num_replicas, int64_t cache_blocks);

  Choice choose(const Trace& trace, const TraceRequest& request, std::span<const ReplicaLoad> loads);

 private:
  // The prompt blocks a replica was sent, by the name of the whole prefix that each ends, with the number of
  // the request that had it last.
  using Known = std::unordered_map<uint64_t, int64_t>;

  Choice choose_by_prefix(const Trace& trace, const TraceRequest& request,
                          std::span<const ReplicaLoad> loads);
  void remember(Known& known);

  Routing routing_;
  int64_t cache_blocks_;
  int64_t num_routed_ = 0;
  std::vector<Known> known_;        // [num_replicas]
  std::vector<uint64_t> prefixes_;  // of the request being routed
};

}  // namespace quire::sim
