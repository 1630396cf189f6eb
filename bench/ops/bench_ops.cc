// Throughput of the ops on every instruction set that this machine supports, compared with the limits of
// the machine (Machine).
//   bench_ops --benchmark_filter=Linear      threads: QUIRE_BENCH_THREADS, default all cores
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "bench_support.h"
#include "quant/sparse_24.h"

namespace quire::bench {
namespace {

// The limits of the machine with its best instructions, each the best of all rounds.
void machine_limits(benchmark::State& state) {
  MachineLimits best;
  for (auto _ : state) {
    const MachineLimits now = select_cpu_isa().limits(pool());
    best.read_bytes_per_s = std::max(best.read_bytes_per_s, now.read_bytes_per_s);
    best.f32_flop_per_s = std::max(best.f32_flop_per_s, now.f32_flop_per_s);
    best.bf16_flop_per_s = std::max(best.bf16_flop_per_s, now.bf16_flop_per_s);
    best.int8_flop_per_s = std::max(best.int8_flop_per_s, now.int8_flop_per_s);
  }
  const auto report = [&](const char* name, double rate) {
    state.counters[name] =
        benchmark::Counter(rate, benchmark::Counter::kDefaults, benchmark::Counter::kIs1000);
  };
  report("read B/s", best.read_bytes_per_s);
  report("float32 FLOP/s", best.f32_flop_per_s);
  report("bfloat16 FLOP/s", best.bf16_flop_per_s);
  report("int8 FLOP/s", best.int8_flop_per_s);
}

// Random weights for a format.
DType source_type(const WeightFormat& format) {
  return is_integer(format) ? DType::kBF16 : format.dtype;
}

Buffer source_weights(const WeightFormat& format, int64_t n, int64_t k) {
  const DType dtype = source_type(format);
  Buffer weights = filled(dtype, n * k);
  const size_t size = dtype_size(dtype);
  for (int64_t i = 0; format.sparse_24 && i < n * k; i += 4)
    std::memset(weights.data() + static_cast<size_t>(i + i / 4 % 3) * size, 0, 2 * size);
  return weights;
}

PackedLinear packed_weights(const Context& context, const OpTable& table, const WeightFormat& format,
                            int64_t n, int64_t k) {
  Buffer weights = source_weights(format, n, k);
  const std::vector<TensorView> parts = {make_view(weights.data(), source_type(format), {n, k})};
  return table.pack_linear(context.ctx, parts, format);
}

// B/s counts the packed weights, with their scales.
void linear(benchmark::State& state, const OpTable& table, const WeightFormat& format, int64_t m, int64_t n,
            int64_t k) {
  const Context context(table);
  const PackedLinear packed = packed_weights(context, table, format, n, k);
  Buffer x = filled(DType::kF32, m * k);
  Buffer out(static_cast<size_t>(m * n) * sizeof(float));
  const TensorView x_view = make_view(x.data(), DType::kF32, {m, k});
  const TensorView out_view = make_view(out.data(), DType::kF32, {m, n});
  for (auto _ : state) table.run(context.ctx, ops::Linear{.out = out_view, .x = x_view, .w = packed});
  report(state, 2.0 * static_cast<double>(m * n * k), static_cast<double>(packed.data.size()));
}

// The matrices of Qwen3-0.6B's layers in the order of a step, so that none of them is in a cache.
void linear_chain(benchmark::State& state, const OpTable& table, const WeightFormat& format, int64_t m) {
  constexpr std::array<std::array<int64_t, 2>, 4> kLayer = {
      {{4096, 1024}, {1024, 2048}, {6144, 1024}, {1024, 3072}}};
  constexpr int kLayers = 28;
  const Context context(table);
  std::vector<PackedLinear> packed;
  double bytes = 0;
  double flop = 0;
  for (int i = 0; i < kLayers; ++i) {
    for (const auto& [n, k] : kLayer) {
      packed.push_back(packed_weights(context, table, format, n, k));
      bytes += static_cast<double>(packed.back().data.size());
      flop += 2.0 * static_cast<double>(m * n * k);
    }
  }
  Buffer x = filled(DType::kF32, m * 3072);
  Buffer out(static_cast<size_t>(m * 6144) * sizeof(float));
  for (auto _ : state) {
    for (const PackedLinear& w : packed)
      table.run(context.ctx, ops::Linear{.out = make_view(out.data(), DType::kF32, {m, w.n}),
                                         .x = make_view(x.data(), DType::kF32, {m, w.k}),
                                         .w = w});
  }
  report(state, flop, bytes);
}

void pack(benchmark::State& state, const OpTable& table, const WeightFormat& format) {
  const Context context(table);
  const int64_t n = 4096;
  const int64_t k = 4096;
  Buffer weights = source_weights(format, n, k);
  const std::vector<TensorView> parts = {make_view(weights.data(), source_type(format), {n, k})};
  for (auto _ : state) {
    benchmark::DoNotOptimize(table.pack_linear(context.ctx, parts, format).data.data());
  }
  report(state, 0, static_cast<double>(weights.size()));
}

void gated(benchmark::State& state, const OpTable& table, int64_t rows) {
  const Context context(table);
  const int64_t d = 8192;
  Buffer gate_up = filled(DType::kF32, rows * 2 * d);
  Buffer out(static_cast<size_t>(rows * d) * sizeof(float));
  for (auto _ : state) {
    table.run(context.ctx,
              ops::GatedActivation{.out = make_view(out.data(), DType::kF32, {rows, d}),
                                   .gate_up = make_view(gate_up.data(), DType::kF32, {rows, 2 * d}),
                                   .activation = Activation::kSilu});
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
    table.run(context.ctx, ops::RmsNorm{.out = view,
                                        .x = view,
                                        .weight = make_view(weight.data(), DType::kF32, {d}),
                                        .eps = 1e-5F,
                                        .weight_offset = 1.0F});
  }
  report(state, 0, static_cast<double>(rows * d) * 8.0);
}

void empty_loop(benchmark::State& state) {
  const auto body = [](int64_t, int64_t, int) {};
  for (auto _ : state) pool().parallel_for(2 * pool().num_threads(), 1, body);
}

void register_isa(const CpuIsa& isa) {
  const OpTable& table = *isa.table;
  const std::string level(isa.name);
  const auto int_format = [](std::string_view name) { return quantization_from_name(name)->layers; };
  const std::pair<std::string, WeightFormat> formats[] = {
      {"float32", {DType::kF32}},
      {"bfloat16", {DType::kBF16}},
      {"float16", {DType::kF16}},
      {"float32-2of4", {.dtype = DType::kF32, .sparse_24 = true}},
      {"bfloat16-2of4", {.dtype = DType::kBF16, .sparse_24 = true}},
      {"float16-2of4", {.dtype = DType::kF16, .sparse_24 = true}},
      {"int8", int_format("int8")},
      {"w8a8", int_format("w8a8")},
      {"int4", int_format("int4")}};
  for (const auto& [format_name, format] : formats) {
    if (format.sparse_24 && !table.keeps_sparse_24(format.dtype, Sparse24::kBlock)) continue;
    const std::string type = "/" + level + "/" + format_name;
    for (const auto& [n, k] : kShapes) {
      for (const int64_t m : {1, 2, 4, 8, 32, 64, 128, 512, 2048}) {
        add("Linear" + type + "/" + std::to_string(n) + "x" + std::to_string(k) + "/m" + std::to_string(m),
            linear, std::cref(table), format, m, n, k);
      }
    }
    // Larger than any last-level cache: decoding a token reads each weight once.
    add("Linear" + type + "/16384x8192/m1", linear, std::cref(table), format, 1, 16384, 8192);
    add("Linear" + type + "/16384x8192/m4", linear, std::cref(table), format, 4, 16384, 8192);
    for (const int64_t m : {1, 2, 4, 8, 32})  // output embedding
      add("Linear" + type + "/151936x1024/m" + std::to_string(m), linear, std::cref(table), format, m, 151936,
          1024);
    for (const int64_t m : {1, 4, 8, 16, 32, 64})
      add("LinearChain" + type + "/m" + std::to_string(m), linear_chain, std::cref(table), format, m);
    add("Pack" + type + "/4096x4096", pack, std::cref(table), format);
  }
  add("GatedSilu/" + level + "/rows64", gated, std::cref(table), 64);
  add("RmsNorm/" + level + "/rows1", norm, std::cref(table), 1);
  add("RmsNorm/" + level + "/rows64", norm, std::cref(table), 64);
}

}  // namespace
}  // namespace quire::bench

int main(int argc, char** argv) {
  using namespace quire::bench;  // NOLINT: main program
  add("Machine", machine_limits);
  add("ThreadPool/empty_loop", empty_loop);
  for (const quire::CpuIsa& isa : quire::cpu_isas()) {
    if (!isa.supported || isa.name == "generic") continue;
    register_isa(isa);
    register_quantized(isa);
    register_attention(isa);
    register_experts(isa);
    register_low_rank(isa);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::AddCustomContext("threads", std::to_string(pool().num_threads()));
  benchmark::RunSpecifiedBenchmarks();
}
