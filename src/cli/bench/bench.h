// The parts of `quire bench`.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace quire::cli {

struct DatasetOptions;
struct OfflineSampling;
struct RandomLengths;

void add_bench_latency(CLI::App& bench, int& exit_code);
void add_bench_throughput(CLI::App& bench, int& exit_code);
void add_bench_steps(CLI::App& bench, int& exit_code);
void add_bench_serve(CLI::App& bench, int& exit_code);

// Flags that several of them share; what they fill must live until the parse is over.
void add_offline_flags(CLI::App& command, OfflineSampling& sampling, std::string& json);
void add_dataset_flags(CLI::App& command, RandomLengths& lengths, DatasetOptions& dataset, std::string& file);

}  // namespace quire::cli
