// What `bench latency` and `bench throughput` share: an engine in this process, and a batch run through it
// with a clock.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "cli/bench/dataset.h"
#include "cli/bench/stats.h"
#include "engine/engine.h"

namespace quire::cli {

// Loads the model with a bar. Throws Error.
std::unique_ptr<Engine> start_engine(const EngineConfig& config);

// Random token ids of the model's vocabulary, none of them special, for requests that are lengths only; token
// ids for texts and messages. Throws Error where the model has no tokenizer or template for them.
void tokenize_requests(std::vector<BenchRequest>& requests, const Engine& engine, uint64_t seed);

struct OfflineSampling {
  float temperature = 1.0F;
  float top_p = 1.0F;
  bool ignore_eos = true;
};

struct BatchOptions {
  std::vector<double>
      arrivals;  // seconds from the begin at which each is submitted, ascending; none: all at once
  // Times are those of the engine thread's CPU clock: what a busy machine does meanwhile is not counted. For
  // batches that keep an engine of one thread busy from begin to end.
  bool cpu_time = false;
};

// Submits all and waits for the last; one record a request, times taken on the engine thread. `on_finished`
// is called there with the number of requests done so far. Throws Error where a request is refused or fails.
std::vector<RequestRecord> run_batch(Engine& engine, const std::vector<BenchRequest>& requests,
                                     const OfflineSampling& sampling,
                                     const std::function<void(size_t done)>& on_finished = {},
                                     const BatchOptions& options = {});

// The CPU time of the thread that asks.
double thread_cpu_seconds();

// A flag for BatchOptions::cpu_time. check_cpu_time throws Error where the engine computes on several
// threads.
void add_cpu_time_flag(CLI::App& command, bool& cpu_time);
void check_cpu_time(const Engine& engine, bool cpu_time);

// The fields of the report that the model gives.
BenchReport describe(const Engine& engine);

}  // namespace quire::cli
