// Products with codes of quantized checkpoints.
#include <algorithm>
#include <functional>
#include <type_traits>
#include <vector>

#include "bench_support.h"
#include "quant/code_tables.h"
#include "quant/coded_layout.h"
#include "quant/coded_matrix.h"

namespace quire::bench {
namespace {

// Codes, scales and all else of a matrix, of no meaning.
class AnyCodes : public CodedMatrix {
 public:
  AnyCodes(const CodedFormat& format, int64_t rows, int64_t cols)
      : format_(format), rows_(rows), cols_(cols) {}

  const CodedFormat& format() const override { return format_; }
  int64_t rows() const override { return rows_; }
  int64_t cols() const override { return cols_; }
  void read_rows(int64_t first, std::span<const CodedRow> out) const override {
    auto hash = static_cast<uint32_t>(first);
    const auto fill = [&](auto span, int mask) {
      for (auto& v : span) {
        hash = hash * 1664525U + 1013904223U;
        v = static_cast<std::remove_reference_t<decltype(v)>>(static_cast<int>(hash >> 24) & mask);
      }
    };
    for (const CodedRow& row : out) {
      fill(row.codes, (1 << std::min(format_.code_bits, 6)) - 1);
      std::ranges::fill(row.block_scales, 0.01F);
      std::ranges::fill(row.block_minima, 0.01F);
      fill(row.group_scales, 63);
      fill(row.group_minima, 63);
      fill(row.group_zeros, (1 << format_.code_bits) - 1);
    }
  }

 private:
  CodedFormat format_;
  int64_t rows_;
  int64_t cols_;
};

struct Named {
  const char* name;
  CodedFormat format;
};

std::vector<Named> formats() {
  const auto linear = [](int32_t bits, int64_t group, int64_t block, bool zeros, bool minima) {
    return CodedFormat{.code_bits = bits,
                       .group_size = group,
                       .block_size = block,
                       .zero = 1 << (bits - 1),
                       .group_zeros = zeros,
                       .minima = minima,
                       .half_scales = true};
  };
  const auto table = [](int32_t bits, int64_t group, int64_t block, std::span<const float> values,
                        std::span<const float> scales) {
    return CodedFormat{.code_bits = bits,
                       .group_size = group,
                       .block_size = block,
                       .values = CodeValues::kTable,
                       .table = values,
                       .group_scale_table = scales};
  };
  return {{"gptq-4bit-g128", linear(4, 128, 128, false, false)},
          {"awq-g128", linear(4, 128, 128, true, false)},
          {"q4_0", linear(4, 32, 32, false, false)},
          {"q4_k", linear(4, 32, 256, false, true)},
          {"q6_k", linear(6, 16, 256, false, false)},
          {"q5_k", linear(5, 32, 256, false, true)},
          {"q3_k", linear(3, 16, 256, false, false)},
          {"q2_k", linear(2, 16, 256, false, true)},
          {"q8_0", linear(8, 32, 32, false, false)},
          {"nf4", table(4, 64, 64, nf4_values(), {})},
          {"nvfp4", table(4, 16, 0, e2m1_values(), e4m3_values())},
          {"fp8-128x128", table(8, 128, 128, e4m3_values(), {})}};
}

void linear(benchmark::State& state, const OpTable& table, const CodedFormat& format,
            ActivationFormat activations, int64_t m, int64_t n, int64_t k) {
  const Context context(table);
  const AnyCodes codes(format, n, k);
  const std::vector<const CodedMatrix*> parts = {&codes};
  PackedLinear packed = table.pack_coded(context.ctx, parts);
  packed.format.activations = activations;
  Buffer x = filled(DType::kF32, m * k);
  Buffer out(static_cast<size_t>(m * n) * sizeof(float));
  const TensorView x_view = make_view(x.data(), DType::kF32, {m, k});
  const TensorView out_view = make_view(out.data(), DType::kF32, {m, n});
  for (auto _ : state) table.linear(context.ctx, out_view, x_view, packed, TensorView{});
  report(state, 2.0 * static_cast<double>(m * n * k), static_cast<double>(packed.data.size()));
}

}  // namespace

void register_coded(const CpuIsa& isa) {
  for (const auto& [name, format] : formats()) {
    for (const ActivationFormat activations : {ActivationFormat::kFloat, ActivationFormat::kInt8}) {
      const bool int8 = activations == ActivationFormat::kInt8;
      if (int8 && !coded_numbers(format)) continue;
      // Levels that have products of their own.
      if (isa.name == "generic" || isa.name.ends_with("_bf16") || (isa.name == "avx512_vnni" && !int8))
        continue;
      const std::string prefix = "Coded/" + std::string(isa.name) + "/" + name + (int8 ? "-a8" : "");
      for (const int64_t m : {1, 4, 8, 32, 512})
        add(prefix + "/4096x4096/m" + std::to_string(m), linear, std::cref(*isa.table), format, activations,
            m, 4096, 4096);
      // What a second-level cache holds, and more than any last-level cache.
      add(prefix + "/512x2048/m1", linear, std::cref(*isa.table), format, activations, 1, 512, 2048);
      add(prefix + "/16384x8192/m1", linear, std::cref(*isa.table), format, activations, 1, 16384, 8192);
    }
  }
}

}  // namespace quire::bench
