// The subcommands of `quire bench`.
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

// Add shared flags. The arguments must outlive the parse.
void add_offline_flags(CLI::App& command, OfflineSampling& sampling, std::string& json);
void add_dataset_flags(CLI::App& command, RandomLengths& lengths, DatasetOptions& dataset, std::string& file);

}  // namespace quire::cli
