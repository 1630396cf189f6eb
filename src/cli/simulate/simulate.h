// The parts of `quire simulate`: flags, setup, and reports.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/stats.h"
#include "contract/engine_config.h"
#include "engine/inspect.h"
#include "sim/capacity.h"
#include "sim/cost_model.h"
#include "sim/sharing.h"
#include "sim/simulator.h"
#include "sim/trace.h"

namespace quire::cli {

struct SimulateFlags {
  EngineConfig config;
  // Load.
  std::string trace;         // file; empty = synthetic requests
  int64_t num_requests = 0;  // 0 = the whole file, or 1000 synthetic ones
  sim::Distribution distribution;
  std::string request_rate;  // "inf" or requests per second; empty = the times in the file, otherwise 1
  double burstiness = 1.0;
  double speed = 1.0;
  int32_t num_samples = 1;
  // Cost of a step.
  std::string cost_model;
  double flops = 0.0;
  double bandwidth = 0.0;
  double step_overhead_ms = 0.0;
  // 0 = MODEL's, for the following four.
  double num_params = 0.0;
  double weight_bytes = 0.0;
  double attention_width = 0.0;
  int64_t kv_bytes_per_token = 0;
  // KV pool and replicas.
  int64_t num_kv_blocks = 0;  // 0 = as many as fit in the memory
  sim::MemoryManager memory = sim::MemoryManager::kPaged;
  sim::RangeAllocator allocator = sim::RangeAllocator::kBuddy;
  bool compare_memory = false;
  int32_t replicas = 1;
  sim::Routing routing = sim::Routing::kLeastLoaded;
  // SLOs.
  std::string goodput;  // "ttft:500,tpot:50"
  std::optional<double> ttft_slo_ms, tpot_slo_ms;
  bool find_replicas = false;
  int32_t max_replicas = 64;
  double goodput_target = 0.9;
  // Block sharing.
  bool compare_sharing = false;
  // Results.
  std::string json;
  std::string svg;
};

// The input of a simulation, built from the flags.
struct SimulateSetup {
  ModelReport model;
  sim::Trace trace;
  sim::SimOptions options;
  Objectives objectives;
  std::string trace_name;
  int64_t num_cut = 0;  // requests truncated to max_model_len
};

// Reads the model's shape and the trace. Throws Error.
SimulateSetup make_setup(const SimulateFlags& flags);
// Reads the cost model from the file, builds it from the roofline flags, or measures MODEL. Throws Error.
sim::CostModel make_cost_model(const SimulateFlags& flags, const ModelReport& model);

// Statistics of one run.
struct SimulateFigures {
  int64_t num_good = 0;  // requests that met the SLOs
  LatencyReport latency;
};
SimulateFigures figures_of(const SimulateSetup& setup, const sim::SimResult& result);

nlohmann::ordered_json result_json(const SimulateSetup& setup, const sim::SimResult& result,
                                   const SimulateFigures& figures);
std::string result_table(const SimulateSetup& setup, const sim::SimResult& result,
                         const SimulateFigures& figures);

// The result of one memory manager in a comparison.
struct ManagerRun {
  sim::MemoryManager manager = sim::MemoryManager::kPaged;
  sim::SimResult result;
};
nlohmann::ordered_json managers_json(const SimulateSetup& setup, const std::vector<ManagerRun>& runs);
std::string managers_table(const std::vector<ManagerRun>& runs);

nlohmann::ordered_json capacity_json(const sim::CapacityPlan& plan, double target);
std::string capacity_table(const sim::CapacityPlan& plan, double target);

nlohmann::ordered_json sharing_json(const std::vector<sim::SharingPoint>& points);
std::string sharing_table(const std::vector<sim::SharingPoint>& points);

}  // namespace quire::cli
