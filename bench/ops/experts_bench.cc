// Products of a few rows with many matrices, as in a decode step of a mixture of experts: in one op or one
// after another, with each variant of prefetching. The weights exceed the caches of most machines.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "bench_support.h"

namespace quire::bench {
namespace {

// Outputs and inputs of an expert's down projection, and of gates and ups (Qwen3-30B-A3B).
constexpr std::array<std::array<int64_t, 2>, 2> kExpertShapes = {{{2048, 768}, {1536, 2048}}};
constexpr int64_t kAllBytes = int64_t{400} << 20;

struct Experts {
  std::vector<PackedLinear> all;
  std::vector<const PackedLinear*> pointers;
};

// As many copies of a matrix as have kAllBytes.
Experts make_experts(const OpTable& table, const WeightFormat& format, int64_t n, int64_t k) {
  const Context context(table);
  const Buffer weights = filled(DType::kBF16, n * k);
  const std::vector<TensorView> parts = {
      make_view(const_cast<std::byte*>(weights.data()), DType::kBF16, {n, k})};
  Experts experts;
  const auto add_one = [&](PackedLinear one) { experts.all.push_back(std::move(one)); };
  add_one(table.pack_linear(context.ctx, parts, format));
  const auto bytes = static_cast<int64_t>(experts.all[0].data.size());
  for (int64_t i = 1; i < kAllBytes / bytes; ++i) {
    PackedLinear copy;
    copy.format = format;
    copy.n = n;
    copy.k = k;
    copy.data = Buffer(static_cast<size_t>(bytes));
    std::memcpy(copy.data.data(), experts.all[0].data.data(), copy.data.size());
    add_one(std::move(copy));
  }
  for (const PackedLinear& one : experts.all) experts.pointers.push_back(&one);
  return experts;
}

struct ExpertCase {
  int64_t active;  // experts with rows
  int64_t rows;    // rows of each
  bool grouped;
  bool into_l2;
};

void multiply_experts(benchmark::State& state, const OpTable& table, const WeightFormat& format, int64_t n,
                      int64_t k, const ExpertCase& of) {
  const Experts experts = make_experts(table, format, n, k);
  Context context(table);
  context.ctx.tuning.prefetch_into_l2 = of.into_l2;
  const auto count = static_cast<int64_t>(experts.all.size());
  const int64_t terms = of.active * of.rows;
  const Buffer x = filled(DType::kF32, terms * k);
  Buffer out(static_cast<size_t>(terms * n) * sizeof(float));
  const TensorView x_view = make_view(const_cast<std::byte*>(x.data()), DType::kF32, {terms, k});
  const TensorView out_view = make_view(out.data(), DType::kF32, {terms, n});
  std::vector<int32_t> offsets(static_cast<size_t>(count) + 1);
  int64_t first = 0;
  for (auto _ : state) {
    if (first + of.active > count) first = 0;
    if (of.grouped) {
      for (int64_t g = 0; g <= count; ++g)
        offsets[static_cast<size_t>(g)] =
            static_cast<int32_t>(std::clamp<int64_t>(g - first, 0, of.active) * of.rows);
      table.run(
          context.ctx,
          ops::GroupedLinear{.out = out_view, .x = x_view, .matrices = experts.pointers, .offsets = offsets});
    } else {
      for (int64_t i = 0; i < of.active; ++i) {
        const int64_t begin = i * of.rows;
        table.run(context.ctx, ops::Linear{.out = row_slice(out_view, begin, begin + of.rows),
                                           .x = row_slice(x_view, begin, begin + of.rows),
                                           .w = experts.all[static_cast<size_t>(first + i)]});
      }
    }
    first += of.active;
  }
  const double bytes = static_cast<double>(of.active) * static_cast<double>(experts.all[0].data.size());
  report(state, 2.0 * static_cast<double>(terms * n * k), bytes);
}

}  // namespace

void register_experts(const CpuIsa& isa) {
  const WeightFormat int8 = {
      .dtype = DType::kI8, .code_bits = 8, .activations = ActivationFormat::kInt8, .activation_group = 128};
  WeightFormat int4 = int8;
  int4.code_bits = 4;
  int4.group_size = 128;
  int4.second_level_group = 32;
  const OpTable* table = isa.table;
  for (const auto& [n, k] : kExpertShapes) {
    for (const bool four : {false, true}) {
      for (const ExpertCase& of :
           {ExpertCase{8, 1, true, true}, ExpertCase{8, 1, true, false}, ExpertCase{8, 1, false, true},
            ExpertCase{42, 2, true, true}, ExpertCase{42, 2, true, false}, ExpertCase{42, 2, false, true}}) {
        const std::string name = "Experts/" + std::string(isa.name) + (four ? "/int4/" : "/int8/") +
                                 std::to_string(n) + "x" + std::to_string(k) + "/" +
                                 std::to_string(of.active) + "x" + std::to_string(of.rows) +
                                 (of.grouped ? "/grouped" : "/separate") + (of.into_l2 ? "/l2" : "/l1");
        const WeightFormat format = four ? int4 : int8;
        const int64_t outputs = n;
        const int64_t inputs = k;
        add(name,
            [=](benchmark::State& state) { multiply_experts(state, *table, format, outputs, inputs, of); });
      }
    }
  }
}

}  // namespace quire::bench
