// quire bench latency: one batch, again and again.
#include <cstdio>

#include "base/error.h"
#include "base/rng.h"
#include "base/strings.h"
#include "cli/bench/bench.h"
#include "cli/bench/offline.h"
#include "cli/flags.h"

namespace quire::cli {
namespace {

struct LatencyFlags {
  EngineConfig config;
  OfflineSampling sampling;
  int32_t batch_size = 8;
  int32_t input_len = 32;
  int32_t output_len = 128;
  int32_t num_iters = 5;
  int32_t num_iters_warmup = 1;
  bool use_loras = true;
  std::string json;
};

int run_latency(const LatencyFlags& f) {
  if (f.batch_size > f.config.max_num_seqs) {
    std::fprintf(stderr,
                 "quire bench latency: --batch-size %d is more than the %d sequences that run at once "
                 "(--max-num-seqs)\n",
                 f.batch_size, f.config.max_num_seqs);
    return 2;
  }
  const std::unique_ptr<Engine> engine = start_engine(f.config);
  std::vector<RequestRecord> all;
  Phases phases;
  std::vector<double> batch_seconds;
  BenchReport report = describe(*engine);
  {
    const int32_t total = f.num_iters_warmup + f.num_iters;
    const int64_t num_requests = int64_t{total} * f.batch_size;
    BatchProgress progress(*engine, "Measuring", num_requests, num_requests * f.output_len);
    for (int32_t i = 0; i < total; ++i) {
      // Other prompts each time: else all but the first iteration would find theirs in the prefix cache.
      auto requests = random_requests(f.batch_size, {f.input_len, f.output_len, 0.0}, f.config.seed);
      tokenize_requests(requests, *engine, derive_seed(f.config.seed, static_cast<uint64_t>(i)));
      const std::vector<LoraModule>& loras = f.config.lora_modules;
      for (size_t r = 0; f.use_loras && !loras.empty() && r < requests.size(); ++r)
        requests[r].lora = loras[r % loras.size()].name;
      const auto records = progress.run(*engine, requests, f.sampling);
      if (i < f.num_iters_warmup) continue;
      batch_seconds.push_back(progress.seconds());
      report.elapsed_s += progress.seconds();
      phases += phases_of(records);
      all.insert(all.end(), records.begin(), records.end());
    }
  }
  add_records(report, all);
  report.prefill_tokens_per_s = phases.prefill_tokens_per_s();
  report.decode_tokens_per_s = phases.decode_tokens_per_s();
  report.batch_size = f.batch_size;
  report.input_len = f.input_len;
  report.output_len = f.output_len;
  report.peak_memory_bytes = peak_memory_bytes();
  const LatencySummary batches = summarize(batch_seconds);
  const std::string table = to_table(
      report, "quire bench latency",
      {table_line("Input x output tokens", cat(f.input_len, " x ", f.output_len)),
       table_line("Iterations", cat(f.num_iters)),
       table_line("Batch latency, mean (ms)", fixed(batches.mean, 2)),
       table_line("Batch latency, p50 / p90 / p99 (ms)",
                  cat(fixed(batches.p50, 2), " / ", fixed(batches.p90, 2), " / ", fixed(batches.p99, 2)))});
  nlohmann::ordered_json object = to_json(report);
  object["num_iters"] = f.num_iters;
  object["batch_ms"] = {
      {"mean", batches.mean}, {"p50", batches.p50}, {"p90", batches.p90}, {"p99", batches.p99}};
  print_report(table, f.json, object);
  return 0;
}

}  // namespace

void add_bench_latency(CLI::App& bench, int& exit_code) {
  CLI::App* command = add_command(bench, "latency", "Measure the latency of one batch in this process");
  auto f = std::make_shared<LatencyFlags>();
  add_engine_flags(*command, f->config);
  const std::string group = "Measurement";
  const auto positive = CLI::Range(1, 1 << 20);
  command->add_option("--batch-size", f->batch_size, "Sequences per batch")->check(positive)->group(group);
  command->add_option("--input-len", f->input_len, "Tokens per random prompt")->check(positive)->group(group);
  command->add_option("--output-len", f->output_len, "Tokens to generate per sequence")
      ->check(positive)
      ->group(group);
  command->add_option("--num-iters", f->num_iters, "Measured batches")->check(positive)->group(group);
  command->add_option("--num-iters-warmup", f->num_iters_warmup, "Warm-up batches")
      ->check(CLI::Range(0, 1 << 20))
      ->group(group);
  command
      ->add_flag("--use-loras,!--no-use-loras", f->use_loras,
                 "Let the sequences of a batch use --lora-modules in turn (default: on)")
      ->group(group);
  add_offline_flags(*command, f->sampling, f->json);
  command->callback([f, &exit_code] { exit_code = run_latency(*f); });
}

}  // namespace quire::cli
