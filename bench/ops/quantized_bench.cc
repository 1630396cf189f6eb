// Products with the weights of quantized checkpoints.
#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/clock.h"
#include "bench_support.h"
#include "quant/code_tables.h"
#include "quant/quant_layout.h"
#include "quant/quantized_matrix.h"

namespace quire::bench {
namespace {

// A quantized matrix with random values and scales.
class AnyCodes : public QuantizedMatrix {
 public:
  AnyCodes(const QuantFormat& format, int64_t rows, int64_t cols)
      : format_(format), rows_(rows), cols_(cols) {}

  const QuantFormat& format() const override { return format_; }
  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  void read_rows(int64_t first, std::span<const QuantizedRow> out) const override {
    auto hash = static_cast<uint32_t>(first);
    const auto fill = [&](auto span, int mask) {
      for (auto& v : span) {
        hash = hash * 1664525U + 1013904223U;
        v = static_cast<std::remove_reference_t<decltype(v)>>(static_cast<int>(hash >> 24) & mask);
      }
    };
    for (const QuantizedRow& row : out) {
      fill(row.codes, (1 << std::min(format_.code_bits, 6)) - 1);
      std::ranges::fill(row.block_scales, 0.01F);
      std::ranges::fill(row.block_minima, 0.01F);
      fill(row.group_scales, 31);
      for (auto& v : row.group_scales) v = static_cast<int8_t>(v + 64);  // avoids denormals in e8m0 scales
      fill(row.group_minima, 63);
      fill(row.group_zero_points, (1 << format_.code_bits) - 1);
    }
  }

 private:
  QuantFormat format_;
  int64_t rows_;
  int64_t cols_;
};

// Tables of integers, and of multiples of 1/8.
std::span<const float> wholes(size_t count) {
  static const std::array<float, 16> numbers = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                1,    13,   25,  38,  53,  69,  89,  113};
  return std::span(numbers).first(count);
}
std::span<const float> eighths() {
  static const std::array<float, 8> numbers = {-0.875F, 0.125F, 1.125F, 0, -1.125F, -0.125F, 0.875F, 0};
  return numbers;
}

struct Named {
  const char* name;
  QuantFormat format;
};

std::vector<Named> formats() {
  const auto linear = [](int32_t bits, int64_t group, int64_t block, bool zeros, bool minima) {
    return QuantFormat{.code_bits = bits,
                       .group_size = group,
                       .block_size = block,
                       .zero_point = 1 << (bits - 1),
                       .group_zero_points = zeros,
                       .minima = minima,
                       .half_scales = true};
  };
  const auto table = [](int32_t bits, int64_t group, int64_t block, std::span<const float> values,
                        std::span<const float> scales) {
    return QuantFormat{.code_bits = bits,
                       .group_size = group,
                       .block_size = block,
                       .values = CodeValues::kTable,
                       .table = values,
                       .group_scale_table = scales};
  };
  const auto e8m0 = e8m0_values();
  return {{"gptq-4bit-g128", linear(4, 128, 128, false, false)},
          {"gptq-2bit-g128", linear(2, 128, 128, false, false)},
          {"gptq-3bit-g128", linear(3, 128, 128, false, false)},
          {"gptq-8bit-g128", linear(8, 128, 128, false, false)},
          {"awq-g128", linear(4, 128, 128, true, false)},
          {"w8a16", linear(8, 0, 0, false, false)},
          {"bitnet", linear(2, 0, 0, false, false)},
          {"tq2_0", linear(2, 256, 256, false, false)},
          {"q4_0", linear(4, 32, 32, false, false)},
          {"q4_1", linear(4, 32, 32, false, true)},
          {"q5_0", linear(5, 32, 32, false, false)},
          {"q5_1", linear(5, 32, 32, false, true)},
          {"q8_0", linear(8, 32, 32, false, false)},
          {"q2_k", linear(2, 16, 256, false, true)},
          {"q3_k", linear(3, 16, 256, false, false)},
          {"q4_k", linear(4, 32, 256, false, true)},
          {"q5_k", linear(5, 32, 256, false, true)},
          {"q6_k", linear(6, 16, 256, false, false)},
          {"iq1_s", table(3, 32, 256, eighths(), {})},
          {"iq2_xs", table(3, 16, 256, wholes(8), {})},
          {"iq3_s", table(4, 32, 256, wholes(16), {})},
          {"iq4_xs", table(4, 32, 256, wholes(16), {})},
          {"mxfp4", table(4, 32, 0, e2m1_values(), e8m0)},
          {"nvfp4", table(4, 16, 0, e2m1_values(), e4m3_values())},
          {"nf4", table(4, 64, 64, nf4_values(), {})},
          {"fp4", table(4, 64, 64, fp4_values(), {})},
          {"fp8-row", table(8, 0, 0, e4m3_values(), {})},
          {"fp8-128x128", table(8, 128, 128, e4m3_values(), {})}};
}

struct Product {
  const OpTable& table;
  QuantFormat format;
  ActivationFormat activations;
  int64_t n;
  int64_t k;

  PackedLinear pack(const Context& context) const {
    const AnyCodes codes(format, n, k);
    const std::vector<const QuantizedMatrix*> parts = {&codes};
    PackedLinear packed = table.pack_quantized(context.ctx, parts);
    packed.format.activations = activations;
    return packed;
  }
};

void linear(benchmark::State& state, const Product& of, int64_t m) {
  const Context context(of.table);
  const PackedLinear packed = of.pack(context);
  Buffer x = filled(DType::kF32, m * of.k);
  Buffer out(static_cast<size_t>(m * of.n) * sizeof(float));
  const TensorView x_view = make_view(x.data(), DType::kF32, {m, of.k});
  const TensorView out_view = make_view(out.data(), DType::kF32, {m, of.n});
  for (auto _ : state) of.table.run(context.ctx, ops::Linear{.out = out_view, .x = x_view, .w = packed});
  report(state, 2.0 * static_cast<double>(m * of.n * of.k), static_cast<double>(packed.data.size()));
}

// Reads one word of each cache line.
void read_all(const Buffer& memory) {
  constexpr int64_t kLine = 8;  // words
  constexpr int64_t kRun = 1 << 14;
  const auto* words = memory.as<uint64_t>();
  pool().parallel_for(static_cast<int64_t>(memory.size()) / 8 / kLine, kRun,
                      [&](int64_t begin, int64_t end, int) {
                        uint64_t even = 0;
                        uint64_t odd = 0;
                        for (int64_t i = begin; i + 1 < end; i += 2) {
                          even += words[i * kLine];
                          odd += words[(i + 1) * kLine];
                        }
                        benchmark::DoNotOptimize(even + odd);
                      });
}

// One row times enough matrices to exceed any cache, as in a decoding step. of_limit: time for reading them
// divided by the time of the products, measured alternately because the memory bandwidth changes from second
// to second.
void decode(benchmark::State& state, const Product& of) {
  constexpr size_t kBytes = size_t{512} << 20;
  const Context context(of.table);
  std::vector<PackedLinear> layers;
  layers.push_back(of.pack(context));
  const size_t bytes = layers[0].data.size();
  while (layers.size() * bytes < kBytes) {
    PackedLinear next = {.format = layers[0].format, .n = of.n, .k = of.k, .data = Buffer(bytes)};
    std::memcpy(next.data.data(), layers[0].data.data(), bytes);
    layers.push_back(std::move(next));
  }
  Buffer x = filled(DType::kF32, of.k);
  Buffer out(static_cast<size_t>(of.n) * sizeof(float));
  const TensorView x_view = make_view(x.data(), DType::kF32, {1, of.k});
  const TensorView out_view = make_view(out.data(), DType::kF32, {1, of.n});
  double multiplying = 0;
  double reading = 0;
  for (auto _ : state) {
    const double begin = monotonic_seconds();
    for (const PackedLinear& layer : layers)
      of.table.run(context.ctx, ops::Linear{.out = out_view, .x = x_view, .w = layer});
    const double end = monotonic_seconds();
    for (const PackedLinear& layer : layers) read_all(layer.data);
    multiplying += end - begin;
    reading += monotonic_seconds() - end;
    state.SetIterationTime(end - begin);
  }
  const auto total = static_cast<double>(layers.size() * bytes);
  const auto rate = [&](double seconds) {
    return benchmark::Counter(total * static_cast<double>(state.iterations()) / seconds,
                              benchmark::Counter::kDefaults, benchmark::Counter::kIs1000);
  };
  state.counters["B/s"] = rate(multiplying);
  state.counters["read B/s"] = rate(reading);
  state.counters["of_limit"] = reading / multiplying;
}

}  // namespace

void register_quantized(const CpuIsa& isa) {
  for (const auto& [name, format] : formats()) {
    for (const ActivationFormat activations :
         {ActivationFormat::kFloat, ActivationFormat::kInt16, ActivationFormat::kInt8}) {
      const bool whole = integer_values(format).has_value();
      if (activations != ActivationFormat::kFloat && !whole) continue;
      // Skips instruction sets that use the kernels of another one for these products.
      if (isa.name == "generic" || isa.name.ends_with("_bf16") || (isa.name == "avx512_vnni" && !whole))
        continue;
      const std::string prefix = "Quantized/" + std::string(isa.name) + "/" + name +
                                 (activations == ActivationFormat::kInt8    ? "-a8"
                                  : activations == ActivationFormat::kInt16 ? "-a16"
                                                                            : "");
      const auto product = [&](int64_t n, int64_t k) {
        return Product{*isa.table, format, activations, n, k};
      };
      for (const int64_t m : {1, 4, 8, 16, 32, 64, 512})
        add(prefix + "/4096x4096/m" + std::to_string(m), linear, product(4096, 4096), m);
      add(prefix + "/512x2048/m1", linear, product(512, 2048), 1);  // fits in L2
      benchmark::RegisterBenchmark((prefix + "/decode").c_str(), decode, product(8192, 4096))
          ->UseManualTime();
    }
  }
}

}  // namespace quire::bench
