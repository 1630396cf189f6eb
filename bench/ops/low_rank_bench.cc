// Changes of adapters, as in a step of Qwen3-0.6B: all rows use one adapter, or each has its own. The
// adapters exceed the caches of most machines.
#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "bench_support.h"

namespace quire::bench {
namespace {

struct LowRankCase {
  int64_t adapters;
  int64_t rows;  // rows of each adapter
  int64_t rank;
};

constexpr int64_t kAllAdapterBytes = int64_t{256} << 20;

// q, k and v in one matrix; gates and ups in one matrix; down.
struct LowRankShape {
  int64_t k;
  std::vector<int64_t> outputs;
};

LowRank make_change(const LowRankShape& shape, int64_t rank) {
  LowRank change{.k = shape.k, .dtype = DType::kBF16};
  int64_t begin = 0;
  int64_t elements = 0;
  for (const int64_t n : shape.outputs) {
    change.pieces.push_back({.out_begin = begin, .n = n, .rank = rank, .scale = 2.0F});
    begin += n;
    elements += n * rank;
  }
  change.a = filled(DType::kBF16, change.ranks() * shape.k);
  change.b = filled(DType::kBF16, elements);
  return change;
}

void add_changes(benchmark::State& state, const OpTable& table, const LowRankShape& shape,
                 const LowRankCase& of) {
  std::vector<LowRank> all;
  all.push_back(make_change(shape, of.rank));
  const auto bytes = static_cast<int64_t>(all[0].a.size() + all[0].b.size());
  while (static_cast<int64_t>(all.size()) < std::max(kAllAdapterBytes / bytes, of.adapters))
    all.push_back(make_change(shape, of.rank));
  Context context(table);
  const int64_t rows = of.adapters * of.rows;
  const int64_t outputs = std::accumulate(shape.outputs.begin(), shape.outputs.end(), int64_t{0});
  const Buffer x = filled(DType::kF32, rows * shape.k);
  Buffer out = filled(DType::kF32, rows * outputs);
  std::vector<int32_t> indices(static_cast<size_t>(rows));
  std::iota(indices.begin(), indices.end(), 0);
  std::vector<LowRankGroup> groups(static_cast<size_t>(of.adapters));
  size_t next = 0;
  for (auto _ : state) {
    for (size_t g = 0; g < groups.size(); ++g) {
      groups[g] = {&all[next++ % all.size()], std::span(indices).subspan(g * static_cast<size_t>(of.rows),
                                                                         static_cast<size_t>(of.rows))};
    }
    table.run(context.ctx,
              ops::AddLowRank{.out = make_view(out.data(), DType::kF32, {rows, outputs}),
                              .x = make_view(const_cast<std::byte*>(x.data()), DType::kF32, {rows, shape.k}),
                              .groups = groups});
  }
  const auto elements = static_cast<double>(bytes) / 2.0;
  report(state, 2.0 * static_cast<double>(rows) * elements,
         static_cast<double>(of.adapters) * static_cast<double>(bytes));
}

}  // namespace

void register_low_rank(const CpuIsa& isa) {
  const std::array<LowRankShape, 3> shapes = {
      {{1024, {2048, 1024, 1024}}, {1024, {3072, 3072}}, {3072, {1024}}}};
  const OpTable* table = isa.table;
  for (const LowRankShape& shape : shapes) {
    for (const LowRankCase& of : {LowRankCase{1, 1, 16}, LowRankCase{1, 32, 16}, LowRankCase{32, 1, 16},
                                  LowRankCase{64, 1, 32}, LowRankCase{1, 512, 16}, LowRankCase{1, 512, 64}}) {
      const std::string name = "AddLowRank/" + std::string(isa.name) + "/" + std::to_string(shape.k) + "/" +
                               std::to_string(shape.outputs.size()) + "x" + std::to_string(shape.outputs[0]) +
                               "/" + std::to_string(of.adapters) + "x" + std::to_string(of.rows) + "/rank" +
                               std::to_string(of.rank);
      add(name, [=](benchmark::State& state) { add_changes(state, *table, shape, of); });
    }
  }
}

}  // namespace quire::bench
