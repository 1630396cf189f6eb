// Throughput of the ops on every instruction set that this machine runs, beside the machine's own peak
// (Machine/...).
//   bench_ops --benchmark_filter=Linear      threads: QUIRE_BENCH_THREADS, default all cores
#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "base/thread_pool.h"
#include "machine.h"
#include "quant/codec.h"

namespace quire::bench {
namespace {

ThreadPool& pool() {
  static ThreadPool made = [] {
    const char* text = std::getenv("QUIRE_BENCH_THREADS");
    const int threads = text == nullptr ? 0 : std::atoi(text);
    return ThreadPool(threads > 0 ? threads : available_cores());
  }();
  return made;
}

// Memory full of small values of a storage format.
Buffer filled(DType dtype, int64_t elements) {
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

void report(benchmark::State& state, double flop, double bytes) {
  const auto per_second = [&](double amount) {
    return benchmark::Counter(amount, benchmark::Counter::kIsIterationInvariantRate,
                              benchmark::Counter::kIs1000);
  };
  state.counters["FLOP/s"] = per_second(flop);
  state.counters["B/s"] = per_second(bytes);
}

void machine_fma(benchmark::State& state) {
  double flop = 0;
  for (auto _ : state) flop = fma_rounds(pool(), 20000);
  report(state, flop, 0);
}

void machine_bf16(benchmark::State& state) {
  double flop = 0;
  for (auto _ : state) flop = bf16_rounds(pool(), 20000);
  if (flop == 0) return state.SkipWithError("no products of bfloat16 pairs on this machine");
  report(state, flop, 0);
}

void machine_read(benchmark::State& state, int64_t mib) {
  const int64_t bytes = mib << 20;
  const Buffer data = filled(DType::kF32, bytes / 4);
  for (auto _ : state) benchmark::DoNotOptimize(read_all(pool(), data.as<float>(), bytes));
  report(state, 0, static_cast<double>(bytes));
}

void linear(benchmark::State& state, const OpTable& table, DType dtype, int64_t m, int64_t n, int64_t k) {
  const Context context(table);
  const Buffer weights = filled(dtype, n * k);
  const std::vector<TensorView> parts = {make_view(const_cast<std::byte*>(weights.data()), dtype, {n, k})};
  const PackedLinear packed = table.pack_linear(context.ctx, parts, WeightFormat{dtype});
  Buffer x = filled(DType::kF32, m * k);
  Buffer out(static_cast<size_t>(m * n) * sizeof(float));
  const TensorView x_view = make_view(x.data(), DType::kF32, {m, k});
  const TensorView out_view = make_view(out.data(), DType::kF32, {m, n});
  for (auto _ : state) table.linear(context.ctx, out_view, x_view, packed, TensorView{});
  report(state, 2.0 * static_cast<double>(m * n * k), static_cast<double>(packed.data.size()));
}

void pack(benchmark::State& state, const OpTable& table, DType dtype) {
  const Context context(table);
  const int64_t n = 4096;
  const int64_t k = 4096;
  const Buffer weights = filled(dtype, n * k);
  const std::vector<TensorView> parts = {make_view(const_cast<std::byte*>(weights.data()), dtype, {n, k})};
  for (auto _ : state) {
    benchmark::DoNotOptimize(table.pack_linear(context.ctx, parts, WeightFormat{dtype}).data.data());
  }
  report(state, 0, static_cast<double>(weights.size()));
}

// `rows` queries at the end of each of `seqs` sequences of `length` tokens; 32 query heads on 8 key heads of
// 128.
void attention(benchmark::State& state, const OpTable& table, DType dtype, int32_t seqs, int32_t length,
               int32_t rows) {
  constexpr int32_t kHeads = 32;
  constexpr int32_t kKvHeads = 8;
  constexpr int32_t kHeadDim = 128;
  constexpr int32_t kBlock = 16;
  const Context context(table);
  const int32_t blocks = (length + kBlock - 1) / kBlock;
  const int64_t block_bytes = kv_bytes_per_block(dtype, kBlock, kKvHeads, kHeadDim);
  Buffer cache(static_cast<size_t>(seqs * blocks * block_bytes));
  const KvCacheView view = {cache.data(), block_bytes, 0, dtype, kBlock, kKvHeads, kHeadDim};
  Buffer tokens = filled(DType::kF32, int64_t{length} * kKvHeads * kHeadDim);
  const TensorView kv = make_view(tokens.data(), DType::kF32, {length, kKvHeads, kHeadDim});
  std::vector<int64_t> slots(static_cast<size_t>(length));
  std::vector<int32_t> cu = {0}, lens, indptr = {0}, ids;
  for (int32_t s = 0; s < seqs; ++s) {
    std::iota(slots.begin(), slots.end(), int64_t{s} * blocks * kBlock);
    table.kv_write(context.ctx, view, kv, kv, slots);
    cu.push_back(cu.back() + rows);
    lens.push_back(length);
    for (int32_t b = 0; b < blocks; ++b) ids.push_back(s * blocks + b);
    indptr.push_back(static_cast<int32_t>(ids.size()));
  }
  Buffer q = filled(DType::kF32, int64_t{cu.back()} * kHeads * kHeadDim);
  Buffer out(q.size());
  const TensorView q_view = make_view(q.data(), DType::kF32, {cu.back(), kHeads, kHeadDim});
  const TensorView out_view = make_view(out.data(), DType::kF32, {cu.back(), kHeads, kHeadDim});
  const AttentionBatch batch = {seqs, cu, lens, indptr, ids};
  const AttentionParams params = {.scale = 0.088F};
  for (auto _ : state) table.paged_attention(context.ctx, out_view, q_view, view, batch, params);
  const double pairs = static_cast<double>(seqs) * rows * (length - (rows - 1) / 2.0);
  report(state, 4.0 * pairs * kHeads * kHeadDim,
         static_cast<double>(seqs) * static_cast<double>(blocks * block_bytes));
  state.counters["tokens/s"] =
      benchmark::Counter(static_cast<double>(cu.back()), benchmark::Counter::kIsIterationInvariantRate);
}

// A step's keys and values, 8 heads of 128, into their blocks.
void kv_write(benchmark::State& state, const OpTable& table, DType dtype, int64_t rows) {
  constexpr int32_t kKvHeads = 8;
  constexpr int32_t kHeadDim = 128;
  const Context context(table);
  const int64_t block_bytes = kv_bytes_per_block(dtype, 16, kKvHeads, kHeadDim);
  Buffer cache(static_cast<size_t>((rows + 15) / 16 * block_bytes));
  const KvCacheView view = {cache.data(), block_bytes, 0, dtype, 16, kKvHeads, kHeadDim};
  Buffer tokens = filled(DType::kF32, rows * kKvHeads * kHeadDim);
  const TensorView kv = make_view(tokens.data(), DType::kF32, {rows, kKvHeads, kHeadDim});
  std::vector<int64_t> slots(static_cast<size_t>(rows));
  std::iota(slots.begin(), slots.end(), 0);
  for (auto _ : state) table.kv_write(context.ctx, view, kv, kv, slots);
  report(state, 0, 2.0 * static_cast<double>(tokens.size()));
}

void gated(benchmark::State& state, const OpTable& table, int64_t rows) {
  const Context context(table);
  const int64_t d = 8192;
  Buffer gate_up = filled(DType::kF32, rows * 2 * d);
  Buffer out(static_cast<size_t>(rows * d) * sizeof(float));
  for (auto _ : state) {
    table.gated_activation(context.ctx, make_view(out.data(), DType::kF32, {rows, d}),
                           make_view(gate_up.data(), DType::kF32, {rows, 2 * d}), Activation::kSilu);
  }
  report(state, 0, static_cast<double>(rows * d) * 12.0);
}

void norm(benchmark::State& state, const OpTable& table, int64_t rows) {
  const Context context(table);
  const int64_t d = 2048;
  Buffer x = filled(DType::kF32, rows * d);
  Buffer weight = filled(DType::kF32, d);
  const TensorView view = make_view(x.data(), DType::kF32, {rows, d});
  for (auto _ : state) {
    table.rms_norm(context.ctx, view, view, make_view(weight.data(), DType::kF32, {d}), 1e-5F, 1.0F);
  }
  report(state, 0, static_cast<double>(rows * d) * 8.0);
}

void empty_loop(benchmark::State& state) {
  const auto body = [](int64_t, int64_t, int) {};
  for (auto _ : state) pool().parallel_for(2 * pool().num_threads(), 1, body);
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

void register_isa(const CpuIsa& isa) {
  const OpTable& table = *isa.table;
  const std::string level(isa.name);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    const std::string type = "/" + level + "/" + std::string(dtype_name(dtype));
    for (const auto& [n, k] : kShapes) {
      for (const int64_t m : {1, 2, 4, 8, 32, 64, 128, 512, 2048}) {
        add("Linear" + type + "/" + std::to_string(n) + "x" + std::to_string(k) + "/m" + std::to_string(m),
            linear, std::cref(table), dtype, m, n, k);
      }
    }
    // More than any last-level cache: one token of decoding reads each weight once.
    add("Linear" + type + "/16384x8192/m1", linear, std::cref(table), dtype, 1, 16384, 8192);
    add("Linear" + type + "/16384x8192/m4", linear, std::cref(table), dtype, 4, 16384, 8192);
    for (const int64_t m : {1, 2, 4, 8, 32})  // an output embedding
      add("Linear" + type + "/151936x1024/m" + std::to_string(m), linear, std::cref(table), dtype, m, 151936,
          1024);
    add("Pack" + type + "/4096x4096", pack, std::cref(table), dtype);
  }
  for (const DType dtype :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2, DType::kI8}) {
    const std::string type = "/" + level + "/" + std::string(dtype_name(dtype));
    add("KvWrite" + type + "/rows512", kv_write, std::cref(table), dtype, 512);
    add("Attention" + type + "/decode1x32768", attention, std::cref(table), dtype, 1, 32768, 1);
    add("Attention" + type + "/decode1x8192", attention, std::cref(table), dtype, 1, 8192, 1);
    add("Attention" + type + "/decode16x1024", attention, std::cref(table), dtype, 16, 1024, 1);
    add("Attention" + type + "/prefill512", attention, std::cref(table), dtype, 1, 512, 512);
    add("Attention" + type + "/prefill512of4096", attention, std::cref(table), dtype, 1, 4096, 512);
  }
  add("GatedSilu/" + level + "/rows64", gated, std::cref(table), 64);
  add("RmsNorm/" + level + "/rows1", norm, std::cref(table), 1);
  add("RmsNorm/" + level + "/rows64", norm, std::cref(table), 64);
}

}  // namespace
}  // namespace quire::bench

int main(int argc, char** argv) {
  using namespace quire::bench;  // NOLINT: a program's main
  add("Machine/fma", machine_fma);
  add("Machine/bf16", machine_bf16);
  for (const int64_t mib : {1, 16, 512})
    add("Machine/read/" + std::to_string(mib) + "MiB", machine_read, mib);
  add("ThreadPool/empty_loop", empty_loop);
  for (const quire::CpuIsa& isa : quire::cpu_isas()) {
    if (isa.supported && isa.name != "generic") register_isa(isa);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("threads", std::to_string(pool().num_threads()));
  benchmark::RunSpecifiedBenchmarks();
}
