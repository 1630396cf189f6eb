// Shared by `bench latency` and `bench throughput`: starts an engine in this process and times a batch.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "cli/bench/dataset.h"
#include "cli/bench/stats.h"
#include "engine/engine.h"

namespace quire::cli {

// Loads the model with a progress bar. Throws Error.
std::unique_ptr<Engine> start_engine(const EngineConfig& config);

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
// `on_finished` is called on that thread with the number of finished requests. Throws Error if a request is
// rejected or fails.
std::vector<RequestRecord> run_batch(Engine& engine, const std::vector<BenchRequest>& requests,
                                     const OfflineSampling& sampling,
                                     const std::function<void(size_t done)>& on_finished = {},
                                     const BatchOptions& options = {});

// CPU time of the calling thread in seconds.
double thread_cpu_seconds();

// Adds the flag for BatchOptions::cpu_time. check_cpu_time throws Error if the engine uses several compute
// threads.
void add_cpu_time_flag(CLI::App& command, bool& cpu_time);
void check_cpu_time(const Engine& engine, bool cpu_time);

// Fills the fields of the report that describe the model.
BenchReport describe(const Engine& engine);

}  // namespace quire::cli
