// quire bench throughput: many requests at once.
#include <algorithm>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/strings.h"
#include "cli/bench/bench.h"
#include "cli/bench/offline.h"
#include "cli/flags.h"

namespace quire::cli {
namespace {

struct ThroughputFlags {
  EngineConfig config;
  OfflineSampling sampling;
  RandomLengths lengths;
  DatasetOptions dataset;
  std::string dataset_file;
  bool trace_times = false;
  bool cpu_time = false;
  int32_t num_iters_warmup = 0;
  std::string json;
};

// `seed` makes the prompts that are lengths only.
std::vector<BenchRequest> make_requests(const ThroughputFlags& f, const Engine& engine, uint64_t seed) {
  std::vector<BenchRequest> requests;
  if (f.dataset_file.empty()) {
    requests = random_requests(f.dataset.num_prompts, f.lengths, f.config.seed);
  } else {
    const Tokenizer* tokenizer = engine.tokenizer();
    requests = read_dataset(f.dataset_file, f.dataset, [tokenizer](const std::string& text) {
      if (tokenizer == nullptr) return static_cast<int64_t>(text.size() / 4);
      return static_cast<int64_t>(tokenizer->encode(text, false).size());
    });
  }
  const int32_t max_model_len = engine.model().max_model_len;
  // Lengths are cut before tokens are made of them, texts once they are tokens. Lengths asked for on the
  // command line are not.
  int64_t num_cut = f.dataset_file.empty() ? 0 : cut_lengths(requests, max_model_len);
  tokenize_requests(requests, engine, seed);
  if (!f.dataset_file.empty()) num_cut += cut_lengths(requests, max_model_len);
  if (num_cut > 0)
    log_warning("cut to the ", max_model_len, " tokens that the model takes: ", num_cut, " of ",
                counted(static_cast<int64_t>(requests.size()), "request"));
  return requests;
}

// The same load all at once, and nothing of it is found by the runs that follow: what is first used takes
// longer, memory above all.
void warm_up(const ThroughputFlags& f, Engine& engine) {
  for (int32_t i = 0; i < f.num_iters_warmup; ++i) {
    const auto requests = make_requests(f, engine, derive_seed(f.config.seed, static_cast<uint64_t>(i) + 1));
    BatchProgress progress(engine, f.num_iters_warmup == 1 ? "Warming up" : cat("Warming up, run ", i + 1),
                           static_cast<int64_t>(requests.size()), total_output_len(requests));
    progress.run(engine, requests, f.sampling);
    engine.check_integrity();  // waits until the engine is idle
    engine.reset_prefix_cache();
  }
}

// Seconds from the common begin of all to the last output of any.
double last_output(const std::vector<RequestRecord>& records) {
  double last = 0.0;
  for (const auto& record : records) last = std::max(last, record.e2e());
  return last;
}

int run_throughput(ThroughputFlags& f) {
  f.dataset.output_len = f.lengths.output_len;
  check_config(f.config);
  // All are handed over at once, so all but the running ones wait.
  f.config.max_num_queued_requests =
      static_cast<int32_t>(std::max<int64_t>(f.config.max_num_queued_requests, f.dataset.num_prompts));
  const std::unique_ptr<Engine> engine = start_engine(f.config);
  warm_up(f, *engine);
  const std::vector<BenchRequest> requests = make_requests(f, *engine, f.config.seed);
  BenchReport report = describe(*engine);
  BatchOptions options;
  options.cpu_time = f.cpu_time;
  check_cpu_time(*engine, f.cpu_time);
  if (f.trace_times) {
    for (const auto& request : requests) options.arrivals.push_back(request.arrival);
    if (!std::is_sorted(options.arrivals.begin(), options.arrivals.end()))
      throw Error(cat(f.dataset_file, ": the times of its requests are not in order"));
  }
  std::vector<RequestRecord> records;
  {
    BatchProgress progress(*engine, "Generating", static_cast<int64_t>(requests.size()),
                           total_output_len(requests));
    records = progress.run(*engine, requests, f.sampling, options);
    report.elapsed_s = f.cpu_time ? last_output(records) : progress.seconds();
  }
  add_records(report, records);
  // Prompts and answers run in the same steps here: both rates are over the whole run.
  int64_t computed = 0;
  for (const auto& record : records) computed += record.prompt_tokens - record.cached_tokens;
  report.prefill_tokens_per_s = report.per_second(computed);
  report.decode_tokens_per_s = report.per_second(report.output_tokens);
  report.batch_size = std::min<int64_t>(engine->model().max_num_seqs, static_cast<int64_t>(requests.size()));
  report.input_len = mean_input_len(requests);
  report.output_len = mean_output_len(requests);
  report.peak_memory_bytes = peak_memory_bytes();
  const EngineStats stats = engine->stats();
  const std::string table = to_table(
      report, "quire bench throughput",
      {table_line("Input x output tokens, mean", cat(report.input_len, " x ", report.output_len)),
       table_line("Preemptions", cat(stats.num_preemptions)), table_line("Steps", cat(stats.num_steps))});
  nlohmann::ordered_json object = to_json(report);
  object["num_preemptions"] = stats.num_preemptions;
  object["num_steps"] = stats.num_steps;
  print_report(table, f.json, object);
  return 0;
}

}  // namespace

void add_bench_throughput(CLI::App& bench, int& exit_code) {
  CLI::App* command =
      add_command(bench, "throughput", "Measure requests and tokens per second in this process");
  auto f = std::make_shared<ThroughputFlags>();
  add_engine_flags(*command, f->config);
  add_dataset_flags(*command, f->lengths, f->dataset, f->dataset_file);
  command
      ->add_flag("--trace-times", f->trace_times,
                 "Submit each request at its time in the trace instead of all at once")
      ->group("Requests");
  command->add_option("--num-iters-warmup", f->num_iters_warmup, "Warm-up runs")
      ->check(CLI::Range(0, 1000))
      ->group("Measurement");
  add_cpu_time_flag(*command, f->cpu_time);
  add_offline_flags(*command, f->sampling, f->json);
  command->callback([f, &exit_code] { exit_code = run_throughput(*f); });
}

}  // namespace quire::cli
