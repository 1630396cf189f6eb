// quire bench steps: the time of single steps, and the cost model of `quire simulate`.
#include "cli/bench/steps.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/strings.h"
#include "cli/bench/bench.h"
#include "cli/bench/offline.h"
#include "cli/flags.h"
#include "cli/progress.h"
#include "sim/trace.h"

namespace quire::cli {
namespace {

constexpr int32_t kAnswer = 16;    // tokens of each answer of a batch
constexpr double kMixPart = 0.5;   // fraction of the time spent on requests of mixed lengths
constexpr int64_t kMixFewest = 8;  // such requests
constexpr int64_t kMixMost = 1000;
// Parts of the rate at which the engine serves them all at once, at which they come.
constexpr double kMixLoads[] = {0.5, 0.8};

// Prompts of one length that come at once and are answered.
struct Point {
  int32_t batch = 1;
  int32_t input_len = 1;
  int64_t tokens() const { return int64_t{batch} * input_len; }
};

std::vector<Point> make_points(const ModelInfo& model, const StepGrid& grid) {
  std::vector<Point> points;
  const int32_t room = std::min(model.max_model_len, 4096) - kAnswer;
  const int64_t pool = int64_t{model.num_blocks} * model.block_size;
  for (int32_t batch = 1; batch <= std::min(model.max_num_seqs, 256); batch *= 2) {
    for (const int32_t input_len : {16, room / 16, room / 4, room}) {
      const int64_t held = int64_t{batch} * (input_len + kAnswer + model.block_size);
      if (input_len < 1 || int64_t{batch} * input_len > grid.max_tokens || held > pool) continue;
      points.push_back({batch, input_len});
    }
  }
  std::stable_sort(points.begin(), points.end(),
                   [](const Point& a, const Point& b) { return a.tokens() < b.tokens(); });
  return points;
}

// Runs requests through the engine and keeps the steps they made.
class StepMeter {
 public:
  StepMeter(Engine& engine, uint64_t seed, bool cpu_time)
      : engine_(engine), seed_(seed), cpu_time_(cpu_time) {
    engine_.observe_steps([this](const StepPlan& plan, const StepTimes& times) { take(plan, times); });
  }
  ~StepMeter() { engine_.observe_steps({}); }
  StepMeter(const StepMeter&) = delete;
  StepMeter& operator=(const StepMeter&) = delete;

  // Returns how long it took.
  double run(std::vector<BenchRequest>& requests, const std::vector<double>& arrivals = {}) {
    // Other prompts each time: none is found in the prefix cache.
    tokenize_requests(requests, engine_, derive_seed(seed_, num_runs_++));
    OfflineSampling sampling;
    sampling.temperature = 0.0F;
    const double begin = monotonic_seconds();
    run_batch(engine_, requests, sampling, {arrivals, false});
    return monotonic_seconds() - begin;
  }
  double run(const Point& point) {
    auto requests = random_requests(point.batch, {point.input_len, kAnswer, 0.0}, 0);
    return run(requests);
  }
  // The engine must be idle.
  std::vector<sim::MeasuredStep> take_steps() { return std::exchange(steps_, {}); }

 private:
  // On the engine thread, while run() waits for it.
  void take(const StepPlan& plan, const StepTimes& times) {
    sim::MeasuredStep step;
    step.load.add(plan);
    step.load.pauses = times.after_pause ? 1 : 0;
    step.seconds = times.end - times.begin;
    if (cpu_time_) {
      const double now = thread_cpu_seconds();
      step.seconds = now - std::exchange(cpu_seconds_, now);
    }
    steps_.push_back(step);
  }

  Engine& engine_;
  uint64_t seed_;
  bool cpu_time_;
  uint64_t num_runs_ = 0;
  double cpu_seconds_ = 0.0;  // CPU time of the engine thread after the last step
  std::vector<sim::MeasuredStep> steps_;
};

// Requests of drawn lengths: all at once, which tells what the engine can do, then coming one by one.
void measure_mix(StepMeter& meter, const ModelInfo& model, double seconds, uint64_t seed,
                 bool all_at_once_only, const std::function<void(double done)>& progress) {
  sim::Distribution lengths;
  lengths.input_mean = std::min(256, model.max_model_len / 4);
  lengths.output_mean = std::min(64, model.max_model_len / 16);
  lengths.max_len = model.max_model_len;
  const auto drawn = [&](int64_t count) {
    lengths.num_requests = count;
    sim::Trace trace = sim::draw_trace(lengths, seed);
    sim::cut_lengths(trace, std::min<int32_t>(model.max_model_len, model.num_blocks * model.block_size / 2));
    std::vector<BenchRequest> requests;
    for (const auto& request : trace.requests)
      requests.push_back({.input_len = request.input_len, .output_len = request.output_len});
    return requests;
  };
  auto few = drawn(kMixFewest);
  const double each = meter.run(few) / static_cast<double>(kMixFewest);
  constexpr double kRuns = 1.0 + 1.0 / kMixLoads[0] + 1.0 / kMixLoads[1];  // in times of the first
  const auto count = std::clamp(static_cast<int64_t>(seconds / (kRuns * each)), kMixFewest, kMixMost);
  auto requests = drawn(count);
  const double rate = static_cast<double>(count) / meter.run(requests);
  progress(1.0 / kRuns);
  if (all_at_once_only) return;
  double done = 1.0;
  for (const double load : kMixLoads) {
    sim::Trace trace;
    trace.requests.resize(static_cast<size_t>(count));
    sim::set_arrivals(trace, load * rate, 1.0, seed);
    std::vector<double> arrivals;
    for (const auto& request : trace.requests) arrivals.push_back(request.arrival);
    auto again = drawn(count);
    meter.run(again, arrivals);
    progress((done += 1.0 / load) / kRuns);
  }
}

struct StepsFlags {
  EngineConfig config;
  StepGrid grid;
  std::string json;
};

nlohmann::ordered_json steps_json(const std::vector<sim::MeasuredStep>& steps, const sim::CostModel& model) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& step : steps) {
    list.push_back({{"tokens", step.load.tokens},
                    {"sequences", step.load.sequences},
                    {"context", step.load.context},
                    {"pairs", step.load.pairs},
                    {"pauses", step.load.pauses},
                    {"count", step.count},
                    {"seconds", step.seconds},
                    {"fitted_s", model.seconds(step.load)}});
  }
  return list;
}

std::string steps_table(const std::vector<sim::MeasuredStep>& steps, const sim::CostModel& model) {
  std::string out = "  tokens  sequences    context      pairs    steps   measured ms     fitted ms\n";
  const auto cell = [](const std::string& text, size_t width) {
    return std::string(text.size() < width ? width - text.size() : 1, ' ') + text;
  };
  for (const auto& step : steps) {
    if (step.load.pauses > 0) continue;
    out += cell(cat(step.load.tokens), 8) + cell(cat(step.load.sequences), 11) +
           cell(cat(step.load.context), 11) + cell(cat(step.load.pairs), 11) + cell(cat(step.count), 9) +
           cell(fixed(1e3 * step.seconds, 3), 14) + cell(fixed(1e3 * model.seconds(step.load), 3), 14) + "\n";
  }
  return out;
}

int run_steps(const StepsFlags& f) {
  const std::unique_ptr<Engine> engine = start_engine(f.config);
  check_cpu_time(*engine, f.grid.cpu_time);
  std::vector<sim::MeasuredStep> steps;
  {
    ProgressBar bar("Measuring");
    steps = measure_steps(*engine, f.grid, f.config.seed, [&](double done) { bar.update(done); });
  }
  const sim::LinearCost cost = sim::fit_linear(steps);
  const sim::CostModel model(cost);
  const sim::FitError error = sim::fit_error(model, steps);
  const BenchReport report = describe(*engine);
  std::string table = "== quire bench steps ==\n";
  table += table_line("Model", report.model);
  table += table_line("Threads", cat(report.threads.value_or(0)));
  int64_t num_steps = 0;
  for (const auto& step : steps) num_steps += step.count;
  table += table_line("Steps measured", cat(num_steps));
  nlohmann::ordered_json coefficients;
  for (const sim::CostTerm& term : sim::kCostTerms) {
    table += table_line(cat(term.label, " (us)"), fixed(1e6 * cost.*term.coefficient, 4));
    coefficients[term.key] = cost.*term.coefficient;
  }
  table += table_line("Error of the fit, mean", fixed(100.0 * error.mean, 1) + " %");
  table += table_line("Error of the fit, worst", fixed(100.0 * error.worst, 1) + " %");
  table += steps_table(steps, model);
  const nlohmann::ordered_json object = {{"model", report.model},
                                         {"dtype", report.dtype.value_or("")},
                                         {"threads", report.threads.value_or(0)},
                                         {"cost_model", coefficients},
                                         {"fit_error", {{"mean", error.mean}, {"worst", error.worst}}},
                                         {"steps", steps_json(steps, model)}};
  print_report(table, f.json, object);
  return 0;
}

}  // namespace

std::vector<sim::MeasuredStep> measure_steps(Engine& engine, const StepGrid& grid, uint64_t seed,
                                             const std::function<void(double done)>& progress) {
  StepMeter meter(engine, seed, grid.cpu_time);
  const std::vector<Point> points = make_points(engine.model(), grid);
  meter.run(Point{});  // warms up, and its first step has no CPU time to begin from
  meter.take_steps();
  const double begin = monotonic_seconds();
  const double grid_seconds = (1.0 - kMixPart) * grid.max_seconds;
  size_t num_points = 0;
  // Each round runs all kinds of batches, so that a temporary disturbance does not fall on one kind only.
  for (int32_t round = 0; round < grid.num_rounds; ++round) {
    for (size_t p = 0; p < points.size() && monotonic_seconds() - begin < grid_seconds; ++p) {
      meter.run(points[p]);
      num_points = std::max(num_points, p + 1);
      progress(kMixPart * std::min(1.0, (monotonic_seconds() - begin) / grid_seconds));
    }
  }
  if (num_points < points.size()) {
    log_warning("only ", num_points, " of ", points.size(), " kinds of batches were measured in ",
                fixed(grid_seconds, 0), " s");
  }
  measure_mix(meter, engine.model(), kMixPart * grid.max_seconds, seed, grid.cpu_time,
              [&](double done) { progress(1.0 - kMixPart + kMixPart * done); });
  return sim::merge_alike(meter.take_steps());
}

void add_bench_steps(CLI::App& bench, int& exit_code) {
  CLI::App* command =
      add_command(bench, "steps", "Measure single engine steps and fit the cost model of quire simulate");
  auto f = std::make_shared<StepsFlags>();
  add_engine_flags(*command, f->config);
  const std::string group = "Measurement";
  command->add_option("--num-rounds", f->grid.num_rounds, "Maximum runs per kind of batch")
      ->check(CLI::Range(1, 1000))
      ->group(group);
  command
      ->add_option("--max-seconds", f->grid.max_seconds,
                   "Duration of the measurement: half for uniform batches, half for mixed requests")
      ->check(CLI::PositiveNumber)
      ->group(group);
  add_cpu_time_flag(*command, f->grid.cpu_time);
  command
      ->add_option("--json", f->json,
                   "Write the results as one JSON object; - = to stdout instead of the table")
      ->type_name("FILE")
      ->group(group);
  command->callback([f, &exit_code] { exit_code = run_steps(*f); });
}

}  // namespace quire::cli
