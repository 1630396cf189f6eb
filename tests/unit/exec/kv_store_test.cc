#include "exec/kv_store.h"

#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/cpu_backend.h"

namespace quire {
namespace {

constexpr int32_t kLayers = 3;
constexpr int32_t kHeads = 2;
constexpr int32_t kHeadDim = 20;
constexpr int32_t kBlock = 4;

ArchSpec small_spec() {
  ArchSpec spec;
  spec.num_layers = kLayers;
  spec.num_heads = kHeads;
  spec.num_kv_heads = kHeads;
  spec.head_dim = kHeadDim;
  return spec;
}

// The attention of one query over the four tokens of `block`.
std::vector<float> attend(const OpTable& ops, const KvCacheView& cache, int32_t block) {
  std::vector<float> q(kHeads * kHeadDim);
  std::iota(q.begin(), q.end(), -20.0F);
  std::vector<float> out(q.size());
  std::vector<std::byte> workspace(ops.workspace_bytes(1, kBlock, kHeads, kHeadDim, 1));
  const std::array<int32_t, 2> cu = {0, 1};
  const std::array<int32_t, 1> lens = {kBlock};
  const std::array<int32_t, 1> ids = {block};
  const Shape shape = {1, kHeads, kHeadDim};
  ops.paged_attention({nullptr, workspace}, make_view(out.data(), DType::kF32, shape),
                      make_view(q.data(), DType::kF32, shape), cache, {1, cu, lens, cu, ids},
                      {.scale = 0.01F});
  return out;
}

// A copied block is whole, whatever the format: elements of all layers, and their scales.
TEST(KvStore, ACopyOfABlockReadsTheSame) {
  const OpTable& ops = *select_cpu_isa().table;
  for (const DType dtype :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2, DType::kI8}) {
    SCOPED_TRACE(std::string(dtype_name(dtype)));
    KvLayout layout = make_kv_layout(small_spec(), dtype, kBlock);
    EXPECT_EQ(layout.bytes_per_block, kLayers * kv_bytes_per_block(dtype, kBlock, kHeads, kHeadDim));
    layout.num_blocks = 3;
    KvStore store(small_spec(), dtype, layout);
    std::mt19937 rng(5);
    std::normal_distribution<float> normal;
    const Shape shape = {kBlock, kHeads, kHeadDim};
    std::vector<std::vector<float>> before;
    for (const KvCacheView& cache : store.layers()) {
      std::vector<float> k(kBlock * kHeads * kHeadDim);
      for (float& x : k) x = normal(rng);
      std::vector<int64_t> slots(kBlock);
      std::iota(slots.begin(), slots.end(), 1 * kBlock);
      const TensorView view = make_view(k.data(), DType::kF32, shape);
      ops.kv_write({}, cache, view, view, slots);
      before.push_back(attend(ops, cache, 1));
    }
    const std::vector<BlockCopy> copies = {BlockCopy{.src = 1, .dst = 2}};
    store.copy(copies);
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(attend(ops, store.layers()[i], 2), before[i]) << "layer " << i;
      EXPECT_NE(attend(ops, store.layers()[i], 0), before[i]) << "an empty block, the test shows nothing";
    }
  }
}

}  // namespace
}  // namespace quire
