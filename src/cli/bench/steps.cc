// quire bench steps: the time of single steps, and the cost model of `quire simulate`.
#include "cli/bench/steps.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/strings.h"
#include "cli/bench/bench.h"
#include "cli/bench/offline.h"
#include "cli/flags.h"
#include "cli/progress.h"

namespace quire::cli {
namespace {

constexpr int32_t kDecodeSteps = 16;    // steps of a decoding batch whose median counts
constexpr int32_t kWitnessTokens = 48;  // of the sequence that decodes beside a prompt
constexpr int32_t kWitnessPrompt = 16;
constexpr double kWitnessLead = 4e-3;  // seconds by which it comes first

// A batch of prompts of one length that decodes, or (with_witness) prompts that come while a sequence
// decodes.
struct Point {
  int32_t batch = 1;
  int32_t input_len = 1;
  bool with_witness = false;
  int64_t tokens() const { return int64_t{batch} * input_len; }
};

std::vector<Point> make_points(const ModelInfo& model, const StepGrid& grid) {
  std::vector<Point> points;
  const int32_t room = std::min(model.max_model_len, 4096) - kWitnessTokens;
  const int64_t pool = int64_t{model.num_blocks} * model.block_size;
  for (int32_t batch = 1; batch <= std::min(model.max_num_seqs, 256); batch *= 2) {
    for (const int32_t input_len : {16, room / 4, room}) {
      const int64_t held = int64_t{batch} * (input_len + kWitnessTokens + model.block_size);
      if (input_len < 1 || int64_t{batch} * input_len > grid.max_tokens || held > pool) continue;
      points.push_back({batch, input_len, false});
    }
  }
  const int32_t longest = std::min(model.max_num_batched_tokens - 1, model.max_model_len - 2);
  for (int32_t tokens = 16; tokens / 2 < longest; tokens *= 2) {
    const int32_t input_len = std::min(tokens, longest);
    if (input_len + kWitnessTokens > pool || input_len > grid.max_tokens) break;
    points.push_back({1, input_len, true});
    // The same number of tokens with less attention between them.
    if (input_len >= 64 && model.max_num_seqs > 4) points.push_back({4, input_len / 4, true});
  }
  std::stable_sort(points.begin(), points.end(),
                   [](const Point& a, const Point& b) { return a.tokens() < b.tokens(); });
  return points;
}

bool one_token_a_piece(const std::vector<RequestRecord>& records) {
  return std::all_of(records.begin(), records.end(), [](const RequestRecord& record) {
    return std::all_of(record.chunk_tokens.begin(), record.chunk_tokens.end(),
                       [](int32_t n) { return n == 1; });
  });
}

// Tokens that had come at `time`.
int32_t tokens_at(const RequestRecord& record, double time) {
  return static_cast<int32_t>(std::upper_bound(record.chunk_times.begin(), record.chunk_times.end(), time) -
                              record.chunk_times.begin());
}

// The step in which a sequence drew its n-th token, n > 1, computed the token before that.
void add_decode(sim::StepLoad& load, int32_t input_len, int32_t num_drawn) {
  load.add(input_len + num_drawn - 2, 1);
}

class StepMeter {
 public:
  StepMeter(Engine& engine, uint64_t seed, bool cpu_time)
      : engine_(engine), seed_(seed), cpu_time_(cpu_time) {}

  // None where what was wanted did not happen in one step.
  std::optional<sim::MeasuredStep> measure(const Point& point) {
    return point.with_witness ? measure_prompts(point) : measure_decode(point);
  }

 private:
  std::vector<RequestRecord> run(std::vector<BenchRequest>& requests, const std::vector<double>& arrivals) {
    // Other prompts each time: none is found in the prefix cache.
    tokenize_requests(requests, engine_, derive_seed(seed_, num_runs_++));
    OfflineSampling sampling;
    sampling.temperature = 0.0F;
    auto records = run_batch(engine_, requests, sampling, {}, {arrivals, cpu_time_});
    if (!one_token_a_piece(records))
      throw Error("the engine gave several tokens at once: steps cannot be told apart");
    return records;
  }

  std::optional<sim::MeasuredStep> measure_decode(const Point& point) {
    const int64_t prefill_steps =
        point.tokens() / std::max(1, engine_.model().max_num_batched_tokens - point.batch) + 2;
    const int32_t output_len = std::min(kDecodeSteps + 2 + static_cast<int32_t>(2 * prefill_steps),
                                        engine_.model().max_model_len - point.input_len);
    auto requests = random_requests(point.batch, {point.input_len, output_len, 0.0}, 0);
    const auto records = run(requests, {});
    // From the step in which the last one drew its first token until the first one ends.
    const RequestRecord* last = &records.front();
    double end = std::numeric_limits<double>::infinity();
    for (const auto& record : records) {
      if (record.chunk_times.front() >= last->chunk_times.front()) last = &record;
      end = std::min(end, record.chunk_times.back());
    }
    std::vector<sim::MeasuredStep> steps;
    const auto& times = last->chunk_times;
    for (size_t i = 1; i < times.size() && times[i - 1] < end; ++i) {
      sim::MeasuredStep step;
      step.seconds = times[i] - times[i - 1];
      for (const auto& record : records) add_decode(step.load, point.input_len, tokens_at(record, times[i]));
      steps.push_back(step);
    }
    if (steps.empty()) return std::nullopt;
    return median(std::move(steps));
  }

  std::optional<sim::MeasuredStep> measure_prompts(const Point& point) {
    auto requests = random_requests(1, {kWitnessPrompt, kWitnessTokens, 0.0}, 0);
    const auto prompts = random_requests(point.batch, {point.input_len, 1, 0.0}, 0);
    requests.insert(requests.end(), prompts.begin(), prompts.end());
    std::vector<double> arrivals(requests.size(), kWitnessLead);
    arrivals.front() = 0.0;
    const auto records = run(requests, arrivals);
    const RequestRecord& witness = records.front();
    // The witness comes first in every step: its token of the same step is the last one before the prompt's.
    const int32_t drawn = tokens_at(witness, records[1].chunk_times.front());
    if (drawn < 2 || drawn >= kWitnessTokens) return std::nullopt;
    const size_t i = static_cast<size_t>(drawn - 1);
    sim::MeasuredStep step;
    step.seconds = witness.chunk_times[i] - witness.chunk_times[i - 1];
    add_decode(step.load, kWitnessPrompt, drawn);
    for (size_t r = 1; r < records.size(); ++r) {
      if (tokens_at(witness, records[r].chunk_times.front()) != drawn) return std::nullopt;
      step.load.add(0, point.input_len);
    }
    return step;
  }

 public:
  static sim::MeasuredStep median(std::vector<sim::MeasuredStep> steps) {
    const auto middle = steps.begin() + static_cast<ptrdiff_t>(steps.size() / 2);
    std::nth_element(steps.begin(), middle, steps.end(),
                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
    return *middle;
  }

 private:
  Engine& engine_;
  uint64_t seed_;
  bool cpu_time_;
  uint64_t num_runs_ = 0;
};

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
                    {"seconds", step.seconds},
                    {"fitted_s", model.seconds(step.load)}});
  }
  return list;
}

std::string steps_table(const std::vector<sim::MeasuredStep>& steps, const sim::CostModel& model) {
  std::string out = "  tokens  sequences    context      pairs   measured ms     fitted ms\n";
  const auto cell = [](const std::string& text, size_t width) {
    return std::string(text.size() < width ? width - text.size() : 1, ' ') + text;
  };
  for (const auto& step : steps) {
    out += cell(cat(step.load.tokens), 8) + cell(cat(step.load.sequences), 11) +
           cell(cat(step.load.context), 11) + cell(cat(step.load.pairs), 11) +
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
  table += table_line("Steps measured", cat(steps.size()));
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
  meter.measure({1, kWitnessPrompt, false});  // warms up
  const double begin = monotonic_seconds();
  std::vector<sim::MeasuredStep> steps;
  for (size_t p = 0; p < points.size(); ++p) {
    if (monotonic_seconds() - begin > grid.max_seconds) {
      log_warning("only ", p, " of ", points.size(), " kinds of steps were measured in ", grid.max_seconds,
                  " s");
      break;
    }
    std::vector<sim::MeasuredStep> rounds;
    for (int32_t round = 0; round < grid.num_rounds; ++round) {
      if (const auto step = meter.measure(points[p])) rounds.push_back(*step);
    }
    if (!rounds.empty()) steps.push_back(StepMeter::median(std::move(rounds)));
    if (progress) progress(static_cast<double>(p + 1) / static_cast<double>(points.size()));
  }
  return steps;
}

void add_bench_steps(CLI::App& bench, int& exit_code) {
  CLI::App* command =
      add_command(bench, "steps", "How long single steps take: the cost model of quire simulate");
  auto f = std::make_shared<StepsFlags>();
  add_engine_flags(*command, f->config);
  const std::string group = "Measurement";
  command
      ->add_option("--num-rounds", f->grid.num_rounds,
                   "Times each kind of step is measured; the median counts")
      ->check(CLI::Range(1, 1000))
      ->group(group);
  command->add_option("--max-seconds", f->grid.max_seconds, "No further kinds of steps after so long")
      ->check(CLI::PositiveNumber)
      ->group(group);
  add_cpu_time_flag(*command, f->grid.cpu_time);
  command->add_option("--json", f->json, "Write the figures as one JSON object; -: only that, to stdout")
      ->type_name("FILE")
      ->group(group);
  command->callback([f, &exit_code] { exit_code = run_steps(*f); });
}

}  // namespace quire::cli
