// Shared by the benchmarks in this process: starts an engine and times batches.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/bench/dataset.h"
#include "cli/bench/stats.h"
#include "cli/progress.h"
#include "engine/engine.h"

namespace quire::cli {

// Gives random requests non-special token ids of the model's vocabulary, and tokenizes texts and messages.
// Throws Error if the model has no tokenizer or chat template for them.
void tokenize_requests(std::vector<BenchRequest>& requests, const Engine& engine, uint64_t seed);

struct OfflineSampling {
  float temperature = 1.0F;
  float top_p = 1.0F;
  bool ignore_eos = true;
};

struct BatchOptions {
  std::vector<double>
      arrivals;  // ascending times of submission in seconds since the start; empty = all at once
  // Measure with the engine thread's CPU clock, so that other processes do not affect the result. Only
  // meaningful for one compute thread that is never idle.
  bool cpu_time = false;
};

// Submits all requests and waits for the last. Returns one record per request, timed on the engine thread.
// Throws Error if a request is rejected or fails.
std::vector<RequestRecord> run_batch(Engine& engine, const std::vector<BenchRequest>& requests,
                                     const OfflineSampling& sampling, const BatchOptions& options = {});

// A progress bar for batches of an engine that runs nothing else.
class BatchProgress {
 public:
  // num_requests: in all batches, with at most max_tokens tokens to generate.
  BatchProgress(const Engine& engine, std::string label, int64_t num_requests, int64_t max_tokens);
  // run_batch(), and updates the bar while it runs.
  std::vector<RequestRecord> run(Engine& engine, const std::vector<BenchRequest>& requests,
                                 const OfflineSampling& sampling, const BatchOptions& options = {});
  // The elapsed time of the last run.
  double seconds() const { return seconds_; }

 private:
  int64_t num_requests_, max_tokens_;
  EngineStats begin_;
  double seconds_ = 0.0;
  ProgressBar bar_;
};

// Adds the flag for BatchOptions::cpu_time. check_cpu_time throws Error if the engine uses several compute
// threads.
void add_cpu_time_flag(CLI::App& command, bool& cpu_time);
void check_cpu_time(const Engine& engine, bool cpu_time);

// Fills the fields of the report that describe the model.
BenchReport describe(const Engine& engine);

}  // namespace quire::cli
