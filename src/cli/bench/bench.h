// The parts of `quire bench`.
#pragma once

#include <CLI/CLI.hpp>

namespace quire::cli {

void add_bench_latency(CLI::App& bench, int& exit_code);
void add_bench_throughput(CLI::App& bench, int& exit_code);
void add_bench_serve(CLI::App& bench, int& exit_code);

}  // namespace quire::cli
