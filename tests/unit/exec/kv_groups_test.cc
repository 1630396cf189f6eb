#include "exec/kv_groups.h"

#include <gtest/gtest.h>
#include <algorithm>

#include <map>
#include <set>
#include <string>

#include "models/state_layout.h"

namespace quire {
namespace {

constexpr int32_t kHeadDim = 256;
constexpr int64_t kLayerBytes = 16 * 2 * kHeadDim * 2;  // a block of 16 tokens, one head, bfloat16

// full_every: each such layer is a full attention layer, the others have the window; 0 = all have it.
ModelSpec window_spec(int32_t num_layers, int32_t full_every, int32_t window, int64_t max_model_len = 32768) {
  ModelSpec spec;
  spec.max_model_len = max_model_len;
  for (int32_t i = 0; i < num_layers; ++i) {
    const bool full = full_every > 0 && (i + 1) % full_every == 0;
    AttentionSpec attention{.num_heads = 4, .num_kv_heads = 1, .head_dim = kHeadDim, .value_dim = kHeadDim};
    attention.params.window = full ? 0 : window;
    spec.layers.push_back({.mixer = attention});
  }
  return spec;
}

AttentionSpec& attention(ModelSpec& spec, size_t layer) {
  return std::get<AttentionSpec>(spec.layers.at(layer).mixer);
}

KvLayout layout_of(const ModelSpec& spec) {
  return make_kv_layout(spec, DType::kBF16, 16);
}

std::map<KvGroupKind, int> count_kinds(const KvLayout& layout) {
  std::map<KvGroupKind, int> kinds;
  for (const KvGroupSpec& group : layout.groups) ++kinds[group.kind];
  return kinds;
}

// Each layer with keys and values of its own is in exactly one group, which keeps at least its window.
void expect_covers(const ModelSpec& spec, const KvLayout& layout) {
  std::set<int32_t> seen;
  for (const KvGroupSpec& group : layout.groups) {
    int64_t bytes = 0;
    for (const int32_t layer : group.layers) {
      EXPECT_TRUE(seen.insert(layer).second) << "layer " << layer << " is in two groups";
      bytes += kv_bytes_of(spec.layers[static_cast<size_t>(layer)], DType::kBF16, layout.block_size);
    }
    EXPECT_LE(bytes, layout.bytes_per_block);
  }
  for (int32_t i = 0; i < spec.num_layers(); ++i) {
    const LayerSpec& layer = spec.layers[static_cast<size_t>(i)];
    EXPECT_EQ(seen.contains(i), has_kv_cache(layer)) << "layer " << i;
  }
}

TEST(KvGroups, PutAllLayersWithoutWindowsIntoOneGroup) {
  const ModelSpec spec = window_spec(28, 1, 0);
  const KvLayout layout = layout_of(spec);
  ASSERT_EQ(layout.groups.size(), 1U);
  EXPECT_EQ(layout.groups[0].kind, KvGroupKind::kFull);
  EXPECT_EQ(layout.bytes_per_block, 28 * kLayerBytes);
  expect_covers(spec, layout);
}

TEST(KvGroups, PutAllLayersWithOneWindowIntoOneGroup) {
  const ModelSpec spec = window_spec(32, 0, 4096);
  const KvLayout layout = layout_of(spec);
  ASSERT_EQ(layout.groups.size(), 1U);
  EXPECT_EQ(layout.groups[0].kind, KvGroupKind::kSlidingWindow);
  EXPECT_EQ(layout.groups[0].window, 4096);
  EXPECT_EQ(layout.bytes_per_block, 32 * kLayerBytes);
}

TEST(KvGroups, SplitWindowLayersIntoGroupsAsLargeAsTheFullOne) {
  // Gemma 3 270M: 18 layers, each sixth is full.
  const ModelSpec spec = window_spec(18, 6, 512);
  const KvLayout layout = layout_of(spec);
  EXPECT_EQ(layout.bytes_per_block, 3 * kLayerBytes);
  EXPECT_EQ(layout.groups[0].layers, (std::vector<int32_t>{5, 11, 17}));
  EXPECT_EQ(count_kinds(layout),
            (std::map<KvGroupKind, int>{{KvGroupKind::kFull, 1}, {KvGroupKind::kSlidingWindow, 5}}));
  expect_covers(spec, layout);
}

TEST(KvGroups, AcceptPaddingInWindowGroupsForFewerGroups) {
  // Gemma 3 27B: 62 layers, 10 full. 52 window layers go into 6 groups of 10.
  const ModelSpec spec = window_spec(62, 6, 1024, 131072);
  const KvLayout layout = layout_of(spec);
  EXPECT_EQ(layout.bytes_per_block, 10 * kLayerBytes);
  EXPECT_EQ(count_kinds(layout),
            (std::map<KvGroupKind, int>{{KvGroupKind::kFull, 1}, {KvGroupKind::kSlidingWindow, 6}}));
  expect_covers(spec, layout);
}

TEST(KvGroups, SplitFullLayersWhereTheyAreMany) {
  // 30 full layers and 4 with a window: blocks of 30 layers would be nearly empty in the window group.
  const ModelSpec spec = [] {
    ModelSpec all = window_spec(34, 1, 0);
    for (const size_t i : {3, 11, 19, 27}) attention(all, i).params.window = 512;
    return all;
  }();
  const KvLayout layout = layout_of(spec);
  EXPECT_LT(layout.bytes_per_block, 10 * kLayerBytes);
  expect_covers(spec, layout);
}

TEST(KvGroups, KeepChunkedAttentionByChunk) {
  // Llama 4 Scout: each fourth layer is full, the others have chunks of 8192 tokens.
  ModelSpec spec = window_spec(48, 4, 0, 1 << 20);
  for (size_t i = 0; i < spec.layers.size(); ++i) attention(spec, i).params.chunk = 8192;
  for (size_t i = 3; i < spec.layers.size(); i += 4) attention(spec, i).params.chunk = 0;
  const KvLayout layout = layout_of(spec);
  EXPECT_EQ(layout.bytes_per_block, 12 * kLayerBytes);
  EXPECT_EQ(count_kinds(layout),
            (std::map<KvGroupKind, int>{{KvGroupKind::kFull, 1}, {KvGroupKind::kChunked, 3}}));
  EXPECT_EQ(layout.groups.back().window, 8192);
}

TEST(KvGroups, FitHeadsOfDifferentSizesIntoOneBlockSize) {
  // MiMo-V2-Flash: window layers have twice the KV heads of full ones.
  ModelSpec spec = window_spec(48, 0, 128, 262144);
  for (size_t i = 0; i < spec.layers.size(); ++i) attention(spec, i).num_kv_heads = 2;
  for (size_t i = 0; i < spec.layers.size(); i += 6) {
    attention(spec, i).params.window = 0;
    attention(spec, i).num_kv_heads = 1;
  }
  const KvLayout layout = layout_of(spec);
  EXPECT_EQ(layout.groups[0].kind, KvGroupKind::kFull);
  EXPECT_EQ(layout.bytes_per_block % (2 * kLayerBytes), 0);
  expect_covers(spec, layout);
}

TEST(KvGroups, KeepWhatLayersThatShareKeysNeed) {
  ModelSpec spec = window_spec(6, 3, 512);
  attention(spec, 4).kv_sharing_layer = 1;  // another window layer
  attention(spec, 5).kv_sharing_layer = 0;  // a full layer reads the keys of a window layer
  const KvLayout layout = layout_of(spec);
  for (const KvGroupSpec& group : layout.groups) {
    const bool has_first = std::ranges::find(group.layers, 0) != group.layers.end();
    const bool has_second = std::ranges::find(group.layers, 1) != group.layers.end();
    EXPECT_EQ(group.kind == KvGroupKind::kFull, has_first || !has_second);
  }
  expect_covers(spec, layout);
}

TEST(KvGroups, TreatWindowsBeyondTheModelLengthAsFullAttention) {
  const KvLayout layout = layout_of(window_spec(18, 6, 32768));
  ASSERT_EQ(layout.groups.size(), 1U);
  EXPECT_EQ(layout.groups[0].kind, KvGroupKind::kFull);
}

TEST(KvGroups, GiveEncodersOneGroup) {
  ModelSpec spec = window_spec(22, 3, 128);
  spec.bidirectional = true;
  const KvLayout layout = layout_of(spec);
  ASSERT_EQ(layout.groups.size(), 1U);
  EXPECT_EQ(layout.bytes_per_block, kLayerBytes);
  EXPECT_EQ(layout.groups[0].layers.size(), 22U);
}

TEST(KvGroups, EnlargeBlocksForStatesNextToWindows) {
  ModelSpec spec = window_spec(6, 3, 512);
  const MambaSpec mamba{.heads = 64, .head_dim = 64, .groups = 1, .state = 128, .conv_kernel = 4};
  for (const size_t i : {0, 3}) spec.layers[i].mixer = mamba;
  const KvLayout layout = layout_of(spec);
  EXPECT_GE(layout.bytes_per_block * kMaxStateBlocks, state_bytes(spec));
  EXPECT_EQ(layout.block_size % 16, 0);
  const auto kinds = count_kinds(layout);
  EXPECT_GT(kinds.at(KvGroupKind::kState), 0);
  EXPECT_GT(kinds.at(KvGroupKind::kSlidingWindow), 0);
  EXPECT_EQ(layout.groups.front().kind, KvGroupKind::kFull);
  EXPECT_EQ(layout.groups.back().kind, KvGroupKind::kState);
}

// The goal of the groups: sequences of 32768 tokens of Gemma 3 270M's shape in 8 GiB.
TEST(KvGroups, HoldFiveTimesTheSequencesOfGemma3) {
  const KvLayout layout = layout_of(window_spec(18, 6, 512));
  const int64_t num_blocks = (int64_t{8} << 30) / layout.bytes_per_block;
  EXPECT_EQ(max_sequences(layout, num_blocks, 32768, 2048), 78);
}

}  // namespace
}  // namespace quire
