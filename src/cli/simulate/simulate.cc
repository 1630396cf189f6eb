// quire simulate: the engine in virtual time.
#include "cli/simulate/simulate.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>

#include "base/counted.h"
#include "base/error.h"
#include "base/strings.h"
#include "cli/bench/stats.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/progress.h"
#include "sim/plots.h"

namespace quire::cli {
namespace {

using nlohmann::ordered_json;

void add_load_flags(CLI::App& command, SimulateFlags& f) {
  const std::string group = "Load";
  const auto add = [&](const std::string& name, auto& field, const std::string& help) {
    return command.add_option(name, field, help)->group(group);
  };
  const auto positive = CLI::Range(1.0, 1e9);
  add("--trace", f.trace,
      "Azure CSV, Mooncake JSON lines, ShareGPT JSON or JSON lines of prompts (default: synthetic requests)")
      ->type_name("FILE");
  add("--num-requests", f.num_requests,
      "Maximum number of requests; 0 = the whole file, or 1000 synthetic ones")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 31));
  add("--input-len", f.distribution.input_mean, "Mean prompt length of synthetic requests, in tokens")
      ->check(positive);
  add("--input-cv", f.distribution.input_cv,
      "Coefficient of variation of the prompt lengths (log-normal); 0 = constant")
      ->check(CLI::Range(0.0, 100.0));
  add("--output-len", f.distribution.output_mean, "Mean output length of synthetic requests, in tokens")
      ->check(positive);
  add("--output-cv", f.distribution.output_cv, "Coefficient of variation of the output lengths")
      ->check(CLI::Range(0.0, 100.0));
  add("--request-rate", f.request_rate,
      "Requests per second, or inf for all at once (default: the times in the file, otherwise 1)");
  add("--burstiness", f.burstiness, "1 = Poisson arrivals, below 1 = bursts, above 1 = more regular")
      ->check(CLI::PositiveNumber);
  add("--speed", f.speed, "Factor by which arrivals are sped up")->check(CLI::PositiveNumber);
  add("--n", f.num_samples, "Number of outputs per prompt")->check(CLI::Range(1, 1024));
}

void add_cost_flags(CLI::App& command, SimulateFlags& f) {
  const std::string group = "Cost of a step";
  const auto add = [&](const std::string& name, auto& field, const std::string& help) {
    return command.add_option(name, field, help)->group(group);
  };
  add("--cost-model", f.cost_model,
      "File written by `quire bench steps --json FILE` (default: measure now, unless --flops is given)")
      ->type_name("FILE");
  add("--flops", f.flops, "Roofline model: operations per second")->check(CLI::NonNegativeNumber);
  add("--bandwidth", f.bandwidth, "Roofline model: memory bandwidth in bytes per second")
      ->check(CLI::NonNegativeNumber);
  add("--step-overhead-ms", f.step_overhead_ms, "Roofline model: fixed time per step")
      ->check(CLI::NonNegativeNumber);
  add("--num-params", f.num_params, "Active parameters per token; 0 = MODEL's")
      ->check(CLI::NonNegativeNumber);
  add("--weight-bytes", f.weight_bytes, "Bytes of the weights; 0 = MODEL's")->check(CLI::NonNegativeNumber);
  add("--attention-width", f.attention_width, "Layers x heads x head size; 0 = MODEL's")
      ->check(CLI::NonNegativeNumber);
  add("--kv-bytes-per-token", f.kv_bytes_per_token, "KV cache bytes per token; 0 = MODEL's")
      ->check(CLI::NonNegativeNumber);
}

void add_replica_flags(CLI::App& command, SimulateFlags& f) {
  static const std::map<std::string, sim::MemoryManager> managers = {
      {"paged", sim::MemoryManager::kPaged},
      {"max-length", sim::MemoryManager::kMaxLength},
      {"power-of-two", sim::MemoryManager::kPowerOfTwo},
      {"oracle", sim::MemoryManager::kOracle}};
  static const std::map<std::string, sim::RangeAllocator> allocators = {
      {"buddy", sim::RangeAllocator::kBuddy}, {"first-fit", sim::RangeAllocator::kFirstFit}};
  static const std::map<std::string, sim::Routing> routings = {{"round-robin", sim::Routing::kRoundRobin},
                                                               {"least-loaded", sim::Routing::kLeastLoaded},
                                                               {"prefix-aware", sim::Routing::kPrefixAware}};
  const std::string group = "Memory and replicas";
  command
      .add_option("--num-kv-blocks", f.num_kv_blocks,
                  "Number of KV cache blocks; 0 = as many as fit in --kv-cache-memory")
      ->check(CLI::Range(0, 1 << 24))
      ->group(group);
  add_choice(command, "--memory", f.memory, managers, "paged",
             "KV memory manager; all except paged reserve a contiguous range at admission")
      ->group(group);
  add_choice(command, "--contiguous-allocator", f.allocator, allocators, "buddy",
             "Allocator of contiguous ranges")
      ->group(group);
  command.add_flag("--compare-memory", f.compare_memory, "Run the trace with every memory manager")
      ->group(group);
  command.add_option("--replicas", f.replicas, "Number of replicas")
      ->check(CLI::Range(1, 4096))
      ->group(group);
  add_choice(command, "--routing", f.routing, routings, "least-loaded",
             "How requests are assigned to replicas")
      ->group(group);
  command.add_option("--goodput", f.goodput, "SLOs in milliseconds, for example ttft:500,tpot:50,e2e:10000")
      ->group("Results");
  command.add_option("--ttft-slo-ms", f.ttft_slo_ms, "Same as ttft in --goodput")
      ->check(CLI::NonNegativeNumber)
      ->group("Results");
  command.add_option("--tpot-slo-ms", f.tpot_slo_ms, "Same as tpot in --goodput")
      ->check(CLI::NonNegativeNumber)
      ->group("Results");
  command
      .add_flag("--find-replicas", f.find_replicas,
                "Find the smallest number of replicas that meets --goodput-target")
      ->group("Results");
  command.add_option("--goodput-target", f.goodput_target, "Fraction of requests that must meet the SLOs")
      ->check(CLI::Range(0.0, 1.0))
      ->group("Results");
  command.add_option("--max-replicas", f.max_replicas, "Maximum number of replicas to try")
      ->check(CLI::Range(1, 4096))
      ->group("Results");
  command
      .add_flag("--compare-sharing", f.compare_sharing,
                "Report the blocks saved by sharing among 2, 4 and 6 samples or beams per prompt")
      ->group("Results");
  command.add_option("--svg", f.svg, "Write plots of the results into this directory")
      ->type_name("DIR")
      ->group("Results");
  command
      .add_option("--json", f.json,
                  "Write the results as one JSON object; - = to stdout instead of the table")
      ->type_name("FILE")
      ->group("Results");
}

constexpr int32_t kSharingWidths[] = {2, 4, 6};
constexpr size_t kSharingRequests = 1000;  // enough for a stable mean

sim::SimResult run_one(const SimulateSetup& setup, const sim::CostModel& cost, sim::MemoryManager memory) {
  sim::SimOptions options = setup.options;
  options.replica.memory = memory;
  ProgressBar bar(cat("Simulating ", sim::name_of(memory)), {.items = "requests", .rate = "requests"});
  const auto num_requests = static_cast<int64_t>(setup.trace.requests.size());
  return sim::simulate(setup.trace, cost, options, [&](double done) {
    const double count = done * static_cast<double>(num_requests);
    bar.update(
        {.fraction = done, .num_done = std::llround(count), .num_items = num_requests, .counted = count});
  });
}

// The results of a run: tables, JSON, and plots with their file names.
struct Output {
  std::string table;
  ordered_json object;
  std::vector<std::pair<std::string, std::string>> plots;
  std::string subtitle;
};

// Replaces result and setup by those of the number of replicas that was found, where there is one.
void find_replicas(const SimulateFlags& f, const sim::CostModel& cost, SimulateSetup& setup,
                   sim::SimResult& result, Output& out) {
  const sim::CapacityPlan plan = sim::find_replicas(f.goodput_target, f.max_replicas, [&](int32_t replicas) {
    setup.options.num_replicas = replicas;
    result = run_one(setup, cost, f.memory);
    const double good = static_cast<double>(figures_of(setup, result).num_good);
    return good / static_cast<double>(setup.trace.requests.size());
  });
  setup.options.num_replicas = plan.replicas > 0 ? plan.replicas : f.max_replicas;
  result = run_one(setup, cost, f.memory);
  out.table = capacity_table(plan, f.goodput_target);
  out.object = capacity_json(plan, f.goodput_target);
  out.plots.emplace_back("replicas.svg", sim::capacity_plot(out.subtitle, plan, f.goodput_target));
}

void compare_memory(const SimulateFlags& f, const sim::CostModel& cost, const SimulateSetup& setup,
                    const sim::SimResult& result, Output& out) {
  std::vector<ManagerRun> runs;
  std::vector<sim::ManagerBar> bars;
  for (const auto manager : {sim::MemoryManager::kPaged, sim::MemoryManager::kOracle,
                             sim::MemoryManager::kPowerOfTwo, sim::MemoryManager::kMaxLength}) {
    runs.push_back({manager, manager == f.memory ? result : run_one(setup, cost, manager)});
    bars.push_back({sim::name_of(manager), runs.back().result.blocked_steps});
  }
  out.table += managers_table(runs);
  out.object["memory_managers"] = managers_json(setup, runs);
  out.plots.emplace_back("managers.svg", sim::managers_plot(out.subtitle, bars));
}

void compare_sharing(const SimulateFlags& f, const SimulateSetup& setup, Output& out) {
  sim::Trace trace = setup.trace;
  trace.requests.resize(std::min(trace.requests.size(), kSharingRequests));
  std::vector<sim::SharingPoint> points;
  ProgressBar bar("Sharing");
  for (const int32_t width : kSharingWidths) {
    points.push_back(sim::parallel_sampling_sharing(trace, setup.options.replica, width));
    bar.update(static_cast<double>(points.size()) / 6.0);
  }
  for (const int32_t width : kSharingWidths) {
    points.push_back(sim::beam_search_sharing(trace, f.config.block_size, width, f.config.seed));
    bar.update(static_cast<double>(points.size()) / 6.0);
  }
  out.table += sharing_table(points);
  out.object["sharing"] = sharing_json(points);
  out.plots.emplace_back("sharing.svg", sim::sharing_plot(out.subtitle, points));
}

void write_plots(const std::string& directory, const Output& out) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error) throw Error(cat("cannot create ", directory, ": ", error.message()));
  for (const auto& [name, svg] : out.plots)
    write_text((std::filesystem::path(directory) / name).string(), svg);
}

int run_simulate(const SimulateFlags& f) {
  if (f.find_replicas && f.goodput.empty() && !f.ttft_slo_ms && !f.tpot_slo_ms) {
    std::fprintf(
        stderr,
        "quire simulate: --find-replicas needs SLOs; use --ttft-slo-ms, --tpot-slo-ms or --goodput\n");
    return 2;
  }
  SimulateSetup setup = make_setup(f);
  const sim::CostModel cost = make_cost_model(f, setup.model);
  Output out;
  out.subtitle =
      cat(setup.trace_name, ", ", counted(static_cast<int64_t>(setup.trace.requests.size()), "request"), ", ",
          setup.model.name);
  sim::SimResult result;
  if (f.find_replicas) {
    find_replicas(f, cost, setup, result, out);
  } else {
    result = run_one(setup, cost, f.memory);
  }
  const SimulateFigures figures = figures_of(setup, result);
  out.table = result_table(setup, result, figures) + out.table;
  ordered_json object = result_json(setup, result, figures);
  object.update(out.object.is_null() ? ordered_json::object() : out.object);
  out.object = std::move(object);
  if (f.compare_memory) compare_memory(f, cost, setup, result, out);
  if (f.compare_sharing) compare_sharing(f, setup, out);
  if (!f.svg.empty()) {
    out.plots.emplace_back("latency.svg",
                           sim::latency_plot(out.subtitle, setup.trace, result, f.num_samples));
    out.plots.emplace_back("memory.svg", sim::memory_plot(out.subtitle, result));
    write_plots(f.svg, out);
  }
  print_report(out.table, f.json, out.object);
  return 0;
}

}  // namespace

void add_simulate(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "simulate", "Simulate the scheduler and KV cache manager on a trace");
  auto f = std::make_shared<SimulateFlags>();
  add_engine_flags(*command, f->config);
  add_load_flags(*command, *f);
  add_cost_flags(*command, *f);
  add_replica_flags(*command, *f);
  command->callback([f, &exit_code] { exit_code = run_simulate(*f); });
}

}  // namespace quire::cli
