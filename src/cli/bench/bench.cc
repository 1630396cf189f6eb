// quire bench: measures as vLLM's bench does.
#include "cli/bench/bench.h"

#include "cli/commands.h"

namespace quire::cli {

void add_bench(CLI::App& app, int& exit_code) {
  CLI::App* bench =
      app.add_subcommand("bench", "Measure: latency, throughput, a running server, or single steps");
  bench->require_subcommand(1);
  add_bench_latency(*bench, exit_code);
  add_bench_throughput(*bench, exit_code);
  add_bench_serve(*bench, exit_code);
  add_bench_steps(*bench, exit_code);
}

}  // namespace quire::cli
