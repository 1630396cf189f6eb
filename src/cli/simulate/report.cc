// Formats the results of a simulation as JSON and tables.
#include "base/strings.h"
#include "cli/simulate/simulate.h"

namespace quire::cli {
namespace {

using nlohmann::ordered_json;

LatencySummary summarize(const sim::LogHistogram& histogram) {
  return {1e3 * histogram.mean(), 1e3 * histogram.percentile(50), 1e3 * histogram.percentile(90),
          1e3 * histogram.percentile(99)};
}

bool meets(const sim::TraceRequest& request, const sim::RequestOutcome& outcome, int32_t num_samples,
           const Objectives& o) {
  return outcome.done() && (!o.ttft || 1e3 * sim::ttft(request, outcome) <= *o.ttft) &&
         (!o.tpot || 1e3 * sim::tpot(outcome, num_samples) <= *o.tpot) &&
         (!o.e2e || 1e3 * sim::e2e(request, outcome) <= *o.e2e);
}

double rate(int64_t count, double seconds) {
  return seconds > 0.0 ? static_cast<double>(count) / seconds : 0.0;
}

double hit_rate(const sim::SimResult& result) {
  return result.totals.prefix_queried_tokens == 0
             ? 0.0
             : static_cast<double>(result.totals.prefix_hit_tokens) /
                   static_cast<double>(result.totals.prefix_queried_tokens);
}

std::string percent(double part) {
  return fixed(100.0 * part, 2) + " %";
}

std::string simulated_row(const char* name, const LatencySummary& s) {
  std::string row = name;
  row.resize(8, ' ');
  for (const double value : {s.mean, s.p50, s.p90, s.p99}) {
    const std::string cell = fixed(value, 2);
    row += std::string(cell.size() < 12 ? 12 - cell.size() : 1, ' ') + cell;
  }
  return row + "\n";
}

// How the pool is used, as fractions, in steps where a request waits for memory only.
ordered_json pressure_json(const sim::SimResult& result) {
  const sim::KvSums& sums = result.blocked_steps;
  if (sums.num_steps == 0) return nullptr;
  return {{"num_steps", sums.num_steps},
          {"filled", sums.part(sums.filled)},
          {"reserved", sums.part(sums.reserved)},
          {"internal", sums.part(sums.unused)},
          {"external", sums.part(sums.rounding + sums.total - sums.held)},
          {"mean_running", sums.mean_running()}};
}

// Ratio of running sequences, paged memory (the first run) to `run`, while requests wait for memory; 0 if
// `run` never waits.
double more_sequences(const std::vector<ManagerRun>& runs, const ManagerRun& run) {
  const double here = run.result.blocked_steps.mean_running();
  return here > 0.0 ? runs.front().result.blocked_steps.mean_running() / here : 0.0;
}

// The requests of each adapter, and of the base model as "".
ordered_json adapters_json(const SimulateSetup& setup, const sim::SimResult& result) {
  struct Times {
    int64_t num_requests = 0;
    std::vector<double> ttfts, e2es;
  };
  std::vector<Times> times(setup.trace.adapters.size() + 1);
  for (size_t i = 0; i < result.outcomes.size(); ++i) {
    const sim::TraceRequest& request = setup.trace.requests[i];
    if (!result.outcomes[i].done()) continue;
    Times& of_adapter = times[static_cast<size_t>(request.adapter)];
    ++of_adapter.num_requests;
    of_adapter.ttfts.push_back(sim::ttft(request, result.outcomes[i]));
    of_adapter.e2es.push_back(sim::e2e(request, result.outcomes[i]));
  }
  ordered_json list = ordered_json::array();
  for (size_t i = 0; i < times.size(); ++i) {
    list.push_back({{"adapter", i == 0 ? std::string() : setup.trace.adapters[i - 1]},
                    {"num_requests", times[i].num_requests},
                    {"ttft_ms", summary_json(cli::summarize(std::move(times[i].ttfts)))},
                    {"e2e_ms", summary_json(cli::summarize(std::move(times[i].e2es)))}});
  }
  return list;
}

}  // namespace

SimulateFigures figures_of(const SimulateSetup& setup, const sim::SimResult& result) {
  SimulateFigures figures;
  const int32_t num_samples = setup.options.replica.num_samples;
  std::vector<double> ttfts, tpots, e2es;
  for (size_t i = 0; i < result.outcomes.size(); ++i) {
    const sim::TraceRequest& request = setup.trace.requests[i];
    const sim::RequestOutcome& outcome = result.outcomes[i];
    figures.num_good += meets(request, outcome, num_samples, setup.objectives) ? 1 : 0;
    if (!outcome.done()) continue;
    ttfts.push_back(sim::ttft(request, outcome));
    e2es.push_back(sim::e2e(request, outcome));
    if (outcome.num_tokens > num_samples) tpots.push_back(sim::tpot(outcome, num_samples));
  }
  figures.latency = {summarize(std::move(ttfts)), summarize(std::move(tpots)), summarize(result.itl),
                     summarize(std::move(e2es))};
  return figures;
}

ordered_json result_json(const SimulateSetup& setup, const sim::SimResult& result,
                         const SimulateFigures& figures) {
  const bool has_goal = setup.objectives.any();
  const int64_t all = static_cast<int64_t>(result.outcomes.size());
  const sim::KvSums& kv = result.all_steps;
  const SchedulerConfig& scheduler = setup.options.replica.scheduler;
  ordered_json json = {
      {"model", setup.model.name},
      {"trace", setup.trace_name},
      {"memory", sim::name_of(setup.options.replica.memory)},
      {"replicas", setup.options.num_replicas},
      {"num_requests", result.num_done},
      {"num_refused", result.num_refused},
      {"num_cut", setup.num_cut},
      {"elapsed_s", result.elapsed},
      {"prompt_tokens", result.prompt_tokens},
      {"output_tokens", result.output_tokens},
      {"requests_per_s", rate(result.num_done, result.elapsed)},
      {"output_tokens_per_s", rate(result.output_tokens, result.elapsed)},
      {"total_tokens_per_s", rate(result.prompt_tokens + result.output_tokens, result.elapsed)},
      {"ttft_ms", summary_json(figures.latency.ttft)},
      {"tpot_ms", summary_json(figures.latency.tpot)},
      {"itl_ms", summary_json(figures.latency.itl)},
      {"e2e_ms", summary_json(figures.latency.e2e)},
      {"num_good", has_goal ? ordered_json(figures.num_good) : ordered_json(nullptr)},
      {"goodput", has_goal ? ordered_json(rate(figures.num_good, result.elapsed)) : ordered_json(nullptr)},
      {"goodput_fraction",
       has_goal ? ordered_json(static_cast<double>(figures.num_good) / static_cast<double>(all))
                : ordered_json(nullptr)},
      {"kv_waste", kv.waste()},
      {"kv_utilization", kv.part(kv.held)},
      {"kv_slots", result.pool_slots},
      {"memory_pressure", pressure_json(result)},
      {"num_preemptions", result.totals.num_preemptions},
      {"prefix_hit_rate", hit_rate(result)},
      {"num_steps", result.totals.num_steps},
      {"computed_tokens", result.totals.num_computed_tokens},
      {"num_samples", setup.options.replica.num_samples},
      {"memory_saved_by_sharing", kv.unshared > 0.0 ? ordered_json(kv.saved()) : ordered_json(nullptr)},
      {"mean_running", kv.mean_running()},
      {"block_size", setup.options.replica.layout.block_size},
      {"max_model_len", scheduler.max_model_len},
      {"max_num_seqs", scheduler.max_num_seqs},
      {"max_num_batched_tokens", scheduler.max_num_batched_tokens}};
  if (setup.trace.adapters.empty()) return json;
  json["max_loras"] = scheduler.max_loras;
  json["adapters"] = adapters_json(setup, result);
  return json;
}

std::string result_table(const SimulateSetup& setup, const sim::SimResult& result,
                         const SimulateFigures& figures) {
  const sim::ReplicaOptions& replica = setup.options.replica;
  std::string out = cat("== quire simulate ", setup.trace_name, " ==\n");
  const auto line = [&](const std::string& label, const std::string& value) {
    out += table_line(label, value);
  };
  line("Model", setup.model.name);
  line("Replicas", cat(setup.options.num_replicas));
  line("KV pool per replica (tokens)", cat(int64_t{replica.layout.num_blocks} * replica.layout.block_size));
  line("Memory manager", sim::name_of(replica.memory));
  if (!setup.trace.adapters.empty()) line("LoRA adapters", cat(setup.trace.adapters.size()));
  line("Successful requests", cat(result.num_done));
  if (result.num_refused > 0) line("Rejected requests", cat(result.num_refused));
  line("Time (s)", fixed(result.elapsed, 3));
  line("Prompt tokens", cat(result.prompt_tokens));
  line("Output tokens", cat(result.output_tokens));
  line("Requests/s", fixed(rate(result.num_done, result.elapsed), 2));
  line("Output tokens/s", fixed(rate(result.output_tokens, result.elapsed), 2));
  line("Total tokens/s", fixed(rate(result.prompt_tokens + result.output_tokens, result.elapsed), 2));
  line("Running sequences, mean", fixed(result.all_steps.mean_running(), 1));
  line("KV pool in use, mean", percent(result.all_steps.part(result.all_steps.held)));
  line("KV waste, mean", percent(result.all_steps.waste()));
  line("Preemptions", cat(result.totals.num_preemptions));
  line("Prefix hit rate", percent(hit_rate(result)));
  line("Steps", cat(result.totals.num_steps));
  if (result.all_steps.unshared > 0.0) line("KV blocks saved by sharing", percent(result.all_steps.saved()));
  if (setup.objectives.any()) {
    line("Goodput (requests/s)", fixed(rate(figures.num_good, result.elapsed), 2));
    line("Requests that met the SLOs",
         percent(rate(figures.num_good, static_cast<double>(result.outcomes.size()))));
  }
  out += "ms              mean         p50         p90         p99\n";
  out += simulated_row("TTFT", figures.latency.ttft);
  out += simulated_row("TPOT", figures.latency.tpot);
  out += simulated_row("ITL", figures.latency.itl);
  out += simulated_row("E2E", figures.latency.e2e);
  return out;
}

ordered_json managers_json(const SimulateSetup& setup, const std::vector<ManagerRun>& runs) {
  ordered_json list = ordered_json::array();
  for (const ManagerRun& run : runs) {
    const SimulateFigures figures = figures_of(setup, run.result);
    list.push_back({{"memory", sim::name_of(run.manager)},
                    {"num_requests", run.result.num_done},
                    {"num_refused", run.result.num_refused},
                    {"kv_waste", run.result.all_steps.waste()},
                    {"kv_utilization", run.result.all_steps.part(run.result.all_steps.held)},
                    {"mean_running", run.result.all_steps.mean_running()},
                    {"memory_pressure", pressure_json(run.result)},
                    {"paged_sequences_ratio", more_sequences(runs, run)},
                    {"output_tokens_per_s", rate(run.result.output_tokens, run.result.elapsed)},
                    {"ttft_ms", summary_json(figures.latency.ttft)},
                    {"tpot_ms", summary_json(figures.latency.tpot)}});
  }
  return list;
}

std::string managers_table(const std::vector<ManagerRun>& runs) {
  std::string out =
      "\n-- memory managers: use of the pool while a request waits for memory; waste is over all steps --\n"
      "manager          filled   reserved   internal   external   sequences  paged fits      waste   "
      "tokens/s\n";
  const auto cell = [](const std::string& text, size_t width) {
    return std::string(text.size() < width ? width - text.size() : 1, ' ') + text;
  };
  for (const ManagerRun& run : runs) {
    const sim::KvSums& sums = run.result.blocked_steps;
    std::string row = sim::name_of(run.manager);
    row.resize(14, ' ');
    row += cell(percent(sums.part(sums.filled)), 9) + cell(percent(sums.part(sums.reserved)), 11) +
           cell(percent(sums.part(sums.unused)), 11) +
           cell(percent(sums.part(sums.rounding + sums.total - sums.held)), 11) +
           cell(fixed(sums.mean_running(), 1), 12) + cell(fixed(more_sequences(runs, run), 1) + " x", 12) +
           cell(percent(run.result.all_steps.waste()), 11) +
           cell(fixed(rate(run.result.output_tokens, run.result.elapsed), 1), 11);
    out += row + "\n";
  }
  return out;
}

ordered_json capacity_json(const sim::CapacityPlan& plan, double target) {
  ordered_json trials = ordered_json::array();
  for (const sim::CapacityTrial& trial : plan.trials)
    trials.push_back({{"replicas", trial.replicas}, {"goodput_fraction", trial.good_fraction}});
  return {{"replicas_needed", plan.replicas > 0 ? ordered_json(plan.replicas) : ordered_json(nullptr)},
          {"goodput_target", target},
          {"trials", trials}};
}

std::string capacity_table(const sim::CapacityPlan& plan, double target) {
  std::string out = "\n-- replicas and fraction of requests that meet the SLOs --\n";
  for (const sim::CapacityTrial& trial : plan.trials)
    out += table_line(cat("  ", trial.replicas), percent(trial.good_fraction));
  out += table_line(cat("Replicas needed for ", percent(target)),
                    plan.replicas > 0 ? cat(plan.replicas) : "more than --max-replicas");
  return out;
}

ordered_json sharing_json(const std::vector<sim::SharingPoint>& points) {
  ordered_json list = ordered_json::array();
  for (const sim::SharingPoint& point : points)
    list.push_back({{"method", point.method}, {"width", point.width}, {"saved", point.saved}});
  return list;
}

std::string sharing_table(const std::vector<sim::SharingPoint>& points) {
  std::string out = "\n-- blocks saved by sharing --\n";
  for (const sim::SharingPoint& point : points)
    out += table_line(cat(point.method, ", ", point.width), percent(point.saved));
  return out;
}

}  // namespace quire::cli
