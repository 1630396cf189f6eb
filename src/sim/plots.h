// Plots of simulation results, each an SVG document.
#pragma once

#include <string>
#include <vector>

#include "sim/capacity.h"
#include "sim/sharing.h"
#include "sim/simulator.h"

namespace quire::sim {

// TTFT and TPOT: percentiles over the time of arrival, and cumulative distributions.
std::string latency_plot(const std::string& subtitle, const Trace& trace, const SimResult& result,
                         int32_t num_samples);

// Use of the KV pool, and running and waiting sequences, over time.
std::string memory_plot(const std::string& subtitle, const SimResult& result);

// Comparison of memory managers: use of the pool while requests wait for memory, and running sequences.
struct ManagerBar {
  std::string name;
  KvSums pressure;
};
std::string managers_plot(const std::string& subtitle, const std::vector<ManagerBar>& managers);

// Fraction of requests that meet the SLOs, by number of replicas.
std::string capacity_plot(const std::string& subtitle, const CapacityPlan& plan, double target);

// Blocks saved by sharing, for parallel samples and for beams.
std::string sharing_plot(const std::string& subtitle, const std::vector<SharingPoint>& points);

}  // namespace quire::sim
