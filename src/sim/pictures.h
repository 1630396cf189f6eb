// The pictures of a simulation: each a whole SVG document.
#pragma once

#include <string>
#include <vector>

#include "sim/capacity.h"
#include "sim/sharing.h"
#include "sim/simulator.h"

namespace quire::sim {

// Time to the first token and time for each token behind it, over the time of arrival (percentiles), and as
// the part of the requests that stay below a time.
std::string latency_picture(const std::string& subtitle, const Trace& trace, const SimResult& result,
                            int32_t num_samples);

// The KV pool over time: what is filled, wasted and free; and how many sequences run and wait.
std::string memory_picture(const std::string& subtitle, const SimResult& result);

// Memory managers beside each other: where the pool goes while requests wait for memory, and how many
// sequences fit.
struct ManagerBar {
  std::string name;
  KvSums pressure;
};
std::string managers_picture(const std::string& subtitle, const std::vector<ManagerBar>& managers);

// The part of the requests that meet the objectives, over the number of replicas.
std::string capacity_picture(const std::string& subtitle, const CapacityPlan& plan, double target);

// What sharing saves, for parallel samples and for beams.
std::string sharing_picture(const std::string& subtitle, const std::vector<SharingPoint>& points);

}  // namespace quire::sim
