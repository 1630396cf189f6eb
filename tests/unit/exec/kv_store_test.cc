#include "exec/kv_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_device.h"
#include "exec/kv_groups.h"
#include "exec/local_executor.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

constexpr int32_t kLayers = 3;
constexpr int32_t kHeads = 2;
constexpr int32_t kStoreHeadDim = 20;
constexpr int32_t kBlock = 4;

ModelSpec small_spec() {
  const AttentionSpec attention_of{
      .num_heads = kHeads, .num_kv_heads = kHeads, .head_dim = kStoreHeadDim, .value_dim = kStoreHeadDim};
  ModelSpec spec;
  spec.layers.assign(kLayers, LayerSpec{.mixer = attention_of});
  return spec;
}

AttentionSpec& attention_of(ModelSpec& spec, size_t layer) {
  return std::get<AttentionSpec>(spec.layers.at(layer).mixer);
}

// The attention_of of one query over the four tokens of `block`.
std::vector<float> attend(const OpTable& ops, const KvCacheView& cache, int32_t block) {
  std::vector<float> q(kHeads * kStoreHeadDim);
  std::iota(q.begin(), q.end(), -20.0F);
  std::vector<float> out(q.size());
  std::vector<std::byte> workspace(ops.workspace_bytes(1, kBlock, kHeads, kStoreHeadDim, 1));
  const std::array<int32_t, 2> cu = {0, 1};
  const std::array<int32_t, 1> lens = {kBlock};
  const std::array<int32_t, 1> ids = {block};
  const Shape shape = {1, kHeads, kStoreHeadDim};
  ops.run({nullptr, workspace}, ops::PagedAttention{.out = make_view(out.data(), DType::kF32, shape),
                                                    .q = make_view(q.data(), DType::kF32, shape),
                                                    .cache = cache,
                                                    .batch = {1, cu, lens, cu, ids},
                                                    .params = {.scale = 0.01F}});
  return out;
}

// A copied block is complete in every format: elements of all layers, and their scales.
TEST(KvStore, CopiesBlocksWithAllElementsAndScales) {
  CpuDevice device(1);
  const OpTable& ops = device.ops();
  for (const DType dtype :
       {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kF8E5M2, DType::kI8}) {
    SCOPED_TRACE(std::string(dtype_name(dtype)));
    KvLayout layout = make_kv_layout(small_spec(), dtype, kBlock);
    EXPECT_EQ(layout.bytes_per_block, kLayers * kv_bytes_per_block(dtype, kBlock, kHeads, kStoreHeadDim));
    layout.num_blocks = 3;
    KvStore store(device, small_spec(), dtype, layout);
    std::mt19937 rng(5);
    std::normal_distribution<float> normal;
    const Shape shape = {kBlock, kHeads, kStoreHeadDim};
    std::vector<std::vector<float>> before;
    for (const KvCacheView& cache : store.layers()) {
      std::vector<float> k(kBlock * kHeads * kStoreHeadDim);
      for (float& x : k) x = normal(rng);
      std::vector<int64_t> slots(kBlock);
      std::iota(slots.begin(), slots.end(), 1 * kBlock);
      const TensorView view = make_view(k.data(), DType::kF32, shape);
      ops.run({}, ops::KvWrite{.cache = cache, .k = view, .v = view, .slot_mapping = slots});
      before.push_back(attend(ops, cache, 1));
    }
    const std::vector<BlockCopy> copies = {BlockCopy{.src = 1, .dst = 2}};
    store.copy(copies, *device.create_stream());
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(attend(ops, store.layers()[i], 2), before[i]) << "layer " << i;
      EXPECT_NE(attend(ops, store.layers()[i], 0), before[i]) << "an empty block, the test shows nothing";
    }
  }
}

// A layer's bytes depend on its own heads; a layer that reads an earlier layer's keys and values stores none.
TEST(KvStore, SizesEachLayerByItsHeads) {
  static_assert(kLayers >= 3);
  ModelSpec spec = small_spec();
  attention_of(spec, 1).num_kv_heads = 1;
  attention_of(spec, 1).head_dim = attention_of(spec, 1).value_dim = kStoreHeadDim / 2;
  attention_of(spec, 2).kv_sharing_layer = 1;
  const int64_t large = kv_bytes_per_block(DType::kF16, kBlock, kHeads, kStoreHeadDim);
  const int64_t small = kv_bytes_per_block(DType::kF16, kBlock, 1, kStoreHeadDim / 2);
  KvLayout layout = make_kv_layout(spec, DType::kF16, kBlock);
  EXPECT_EQ(layout.bytes_per_block, (kLayers - 2) * large + small);
  layout.num_blocks = 2;
  CpuDevice device(1);
  const KvStore store(device, spec, DType::kF16, layout);
  EXPECT_EQ(store.layers()[1].layer_offset, large);
  EXPECT_EQ(store.layers()[1].num_kv_heads, 1);
  EXPECT_EQ(store.layers()[1].head_dim, kStoreHeadDim / 2);
  EXPECT_EQ(store.layers()[2].base, nullptr) << "it reads the view of its source";
}

TEST(KvStore, SharesThePoolBetweenGroups) {
  ModelSpec spec = small_spec();
  spec.max_model_len = 1000;
  attention_of(spec, 0).params.window = 8;
  attention_of(spec, 2).params.window = 8;
  KvLayout layout = make_kv_layout(spec, DType::kF32, kBlock);
  const int64_t layer_bytes = kv_bytes_per_block(DType::kF32, kBlock, kHeads, kStoreHeadDim);
  ASSERT_EQ(layout.groups.size(), 3U);
  EXPECT_EQ(layout.groups[0].layers, (std::vector<int32_t>{1}));
  layout.num_blocks = 2;
  CpuDevice device(1);
  const KvStore store(device, spec, DType::kF32, layout);
  for (const KvCacheView& view : store.layers()) {
    EXPECT_EQ(view.base, store.layers()[0].base);
    EXPECT_EQ(view.block_stride, layer_bytes);
    EXPECT_EQ(view.layer_offset, 0);
  }
}

// Layer 1 has attention_of, layers 0 and 2 have recurrent states of 4 heads.
ModelSpec hybrid_spec(int32_t head_state) {
  ModelSpec spec = small_spec();
  const MambaSpec mamba{.heads = 4, .head_dim = 8, .groups = 1, .state = head_state, .conv_kernel = 4};
  for (const size_t i : {0, 2}) spec.layers[i].mixer = mamba;
  return spec;
}

TEST(KvStore, StoresStatesInBlocksOfTheirOwn) {
  const ModelSpec spec = hybrid_spec(16);
  KvLayout layout = make_kv_layout(spec, DType::kF32, kBlock);
  const int64_t token = 2 * kHeads * kStoreHeadDim * 4;
  EXPECT_EQ(layout.block_size, kBlock);
  EXPECT_EQ(layout.checkpoint_blocks, 16);
  EXPECT_EQ(layout.bytes_per_block, kBlock * token);
  EXPECT_EQ(kv_bytes_per_token(layout), token);
  EXPECT_EQ(layout.groups[0].layers, (std::vector<int32_t>{1}));
  // A layer's parts: its last inputs, 3 (32 + 2 * 16) floats, and 4 heads of 16 * 8. A block of 1280 bytes
  // holds the inputs and a head, or two heads.
  ASSERT_EQ(layout.groups.size(), 1U + 5U);
  for (size_t g = 1; g < layout.groups.size(); ++g) EXPECT_EQ(layout.groups[g].kind, KvGroupKind::kState);
  EXPECT_EQ(layout.groups[3].layers, (std::vector<int32_t>{0, 2}));
  EXPECT_EQ(state_bytes(spec), 2 * (768 + 4 * 512));
  EXPECT_EQ(max_sequence_blocks(layout, 9, 64), 3 + 2 * 5);

  layout.num_blocks = 7;
  CpuDevice device(1);
  KvStore store(device, spec, DType::kF32, layout);
  EXPECT_EQ(store.layers()[0].base, nullptr);
  EXPECT_NE(store.layers()[1].base, nullptr);
  // The parts of all layers do not overlap.
  const std::array<int32_t, 5> blocks = {6, 1, 3, 0, 4};
  const StateBatch batch = {1, {}, {}, blocks, 5};
  std::vector<std::pair<float*, int64_t>> pieces;
  for (const size_t layer : {0, 2}) {
    const LayerState& state = store.states()[layer];
    ASSERT_EQ(state.inputs.parts.size(), 1U);
    ASSERT_EQ(state.recurrence.parts.size(), 4U);
    pieces.emplace_back(state_part(state.inputs, batch, 0, 0), 3 * 64);
    for (int64_t h = 0; h < 4; ++h) pieces.emplace_back(state_part(state.recurrence, batch, 0, h), 16 * 8);
  }
  std::sort(pieces.begin(), pieces.end());
  for (size_t i = 1; i < pieces.size(); ++i)
    EXPECT_LE(pieces[i - 1].first + pieces[i - 1].second, pieces[i].first);
}

// Blocks grow until a sequence's states fill few of them; checkpoints stay as far apart.
TEST(KvStore, EnlargesBlocksForLargeStates) {
  const ModelSpec spec = hybrid_spec(4000);
  const KvLayout layout = make_kv_layout(spec, DType::kF32, kBlock);
  EXPECT_GT(layout.block_size, kBlock);
  EXPECT_EQ(layout.block_size % kBlock, 0);
  EXPECT_GE(layout.bytes_per_block * kMaxStateBlocks, state_bytes(spec));
  EXPECT_LE(layout.checkpoint_blocks * layout.block_size, std::max(layout.block_size, 16 * kBlock));
  ModelSpec alone = spec;
  alone.layers[1] = alone.layers[0];
  const KvLayout states = make_kv_layout(alone, DType::kF32, kBlock);
  EXPECT_EQ(states.groups.size(), 1U);
  EXPECT_EQ(states.bytes_per_block, state_bytes(alone));
  EXPECT_EQ(kv_bytes_per_token(states), 0);
  EXPECT_EQ(max_sequence_blocks(states, 1000000, 64), 2);
}

// Models whose layers have different numbers or sizes of heads, or share keys and values: the executor gets
// the tokens of transformers.
class MixedHeads : public testing::TestWithParam<std::string> {};

TEST_P(MixedHeads, MatchTransformers) {
  const auto dir = test::golden_model(GetParam());
  CpuDevice device(1);
  const test::LoadedModel loaded = test::load_model(dir, device.ops());
  const ModelSpec& spec = loaded.model->spec();
  LocalExecutorOptions options;
  options.layout = make_kv_layout(spec, DType::kF32, 16);
  EXPECT_LT(options.layout.bytes_per_block,
            spec.num_layers() * kv_bytes_of(spec.layers.front(), DType::kF32, 16));
  options.max_model_len = 128;
  constexpr int32_t kBlocks = 8;
  const auto num_groups = static_cast<int32_t>(options.layout.groups.size());
  options.layout.num_blocks = kBlocks * num_groups;
  options.max_num_batched_tokens = 128;
  LocalExecutor executor(*loaded.model, device, options);
  const auto golden = read_json_file(dir / "golden.json")["cases"].back();
  auto tokens = golden["prompt"].get<std::vector<TokenId>>();
  std::vector<TokenId> found;
  StepPlan plan;
  SequenceInit& init = plan.inits.emplace_back();
  init.seq = 1;
  init.prompt_token_ids = tokens;
  init.sampling.edit().temperature = 0.0F;
  init.sampling.edit().ignore_eos = true;
  for (int32_t g = 0; g < num_groups; ++g)
    plan.block_table_updates.push_back({1, g, 0, g * kBlocks, kBlocks});
  for (int32_t i = options.layout.num_blocks; i-- > 0;) plan.block_ids.push_back(i);
  int32_t computed = 0;
  const size_t count = golden["greedy"].size();
  while (found.size() < count) {
    const auto all = static_cast<int32_t>(tokens.size());
    plan.scheduled.push_back({1, computed, all - computed, true});
    executor.begin(plan);
    const StepResult& result = executor.finish();
    ASSERT_TRUE(result.failures.empty()) << result.failures.front().message;
    ASSERT_EQ(result.sampled.size(), 1U);
    computed = all;
    tokens.push_back(result.sampled.front().token);
    found.push_back(tokens.back());
    plan = StepPlan{.step = plan.step + 1};
  }
  EXPECT_EQ(found, golden["greedy"].get<std::vector<TokenId>>());
}

INSTANTIATE_TEST_SUITE_P(Models, MixedHeads, testing::Values("mimo_v2_flash", "gemma3n", "gemma4"),
                         [](const auto& test) { return test::test_name(test.param); });

}  // namespace
}  // namespace quire
