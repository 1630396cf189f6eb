// Shared by the op benchmarks: threads, memory, how figures are reported.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "backends/cpu/cpu_backend.h"
#include "base/thread_pool.h"
#include "quant/codec.h"

namespace quire::bench {

inline ThreadPool& pool() {
  static ThreadPool made = [] {
    const char* text = std::getenv("QUIRE_BENCH_THREADS");
    const int threads = text == nullptr ? 0 : std::atoi(text);
    return ThreadPool(threads > 0 ? threads : available_cores());
  }();
  return made;
}

// Memory full of small values of a storage format.
inline Buffer filled(DType dtype, int64_t elements) {
  Buffer buffer(static_cast<size_t>(elements) * dtype_size(dtype));
  pool().parallel_for(elements, 65536, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const auto hash = static_cast<uint32_t>(i) * 2654435761U;
      store_f32(dtype, buffer.data(), i, static_cast<float>(hash >> 16) / 65536.0F - 0.5F);
    }
  });
  return buffer;
}

struct Context {
  explicit Context(const OpTable& table)
      : workspace(table.workspace_bytes(4096, 65536, 64, 256, pool().num_threads())) {
    ctx = {&pool(), {workspace.data(), workspace.size()}};
  }
  Buffer workspace;
  OpContext ctx;
};

inline void report(benchmark::State& state, double flop, double bytes) {
  const auto per_second = [&](double amount) {
    return benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate,
                              benchmark::Counter::kIs1000);
  };
  state.counters["FLOP/s"] = per_second(flop);
  state.counters["B/s"] = per_second(bytes);
}

template <typename F, typename... Args>
void add(const std::string& name, F f, Args... args) {
  auto* made = benchmark::RegisterBenchmark(name.c_str(), f, args...);
  // One thread is judged by its processor time, so that what else runs on the machine counts less.
  if (pool().num_threads() > 1) made->UseRealTime();
}

// Outputs x inputs: those of SmolLM2-135M, Qwen3-0.6B and TinyLlama-1.1B.
constexpr std::array<std::array<int64_t, 2>, 8> kShapes = {{{576, 576},
                                                            {3072, 576},
                                                            {576, 1536},
                                                            {6144, 1024},
                                                            {1024, 3072},
                                                            {2048, 2048},
                                                            {11264, 2048},
                                                            {2048, 5632}}};

// Products with codes of quantized checkpoints, of one instruction set.
void register_quantized(const CpuIsa& isa);
// Products with many matrices, of one instruction set.
void register_experts(const CpuIsa& isa);
// Changes of adapters, of one instruction set.
void register_low_rank(const CpuIsa& isa);
// Attention and what it reads, of one instruction set.
void register_attention(const CpuIsa& isa);

}  // namespace quire::bench
