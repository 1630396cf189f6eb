#include "nn/mixer_traits.h"

#include <gtest/gtest.h>

#include "nn/attention_spec.h"
#include "nn/compressed_attention_spec.h"
#include "nn/mla_spec.h"
#include "nn/parallel_mixer_spec.h"

namespace quire {
namespace {

AttentionSpec windowed(int32_t window, int32_t chunk) {
  AttentionSpec spec{.num_heads = 4, .num_kv_heads = 2, .head_dim = 8, .value_dim = 8};
  spec.params.window = window;
  spec.params.chunk = chunk;
  return spec;
}

TEST(MixerTraitsTest, AttentionKeepsItsWindow) {
  EXPECT_EQ(mixer_traits(windowed(0, 0)).window, 0);
  EXPECT_EQ(mixer_traits(windowed(16, 0)).window, 16);
  EXPECT_FALSE(mixer_traits(windowed(16, 0)).chunked);
}

TEST(MixerTraitsTest, ChunkedAttentionKeepsItsChunk) {
  EXPECT_EQ(mixer_traits(windowed(0, 32)).window, 32);
  EXPECT_TRUE(mixer_traits(windowed(0, 32)).chunked);
}

TEST(MixerTraitsTest, AttentionWithAnIndexerKeepsAllKeysAndNeedsMasks) {
  AttentionSpec spec = windowed(16, 0);
  spec.indexer = IndexerSizes{.heads = 2, .dim = 8, .count = 4, .block = 16};
  EXPECT_EQ(mixer_traits(spec).window, 0);
  EXPECT_EQ(mixer_traits(spec).masks, 2);
}

TEST(MixerTraitsTest, LatentAttentionReportsTheHeadsBeforeCompression) {
  const MlaSpec spec{.num_heads = 4, .kv_lora_rank = 32, .qk_rope_head_dim = 4, .qk_nope_head_dim = 8};
  const MixerTraits traits = mixer_traits(spec);
  EXPECT_EQ(traits.reported_heads.num_kv_heads, 4);
  EXPECT_EQ(traits.reported_heads.head_dim, 12);
  EXPECT_FALSE(traits.input_scales_move);
  EXPECT_EQ(traits.masks, 0);
}

TEST(MixerTraitsTest, LatentAttentionWithoutAnIndexerOfItsOwnSharesASelection) {
  MlaSpec spec{.num_heads = 4};
  spec.index = {.heads = 2, .dim = 8, .count = 4};
  EXPECT_TRUE(mixer_traits(spec).shares_selection);
  spec.has_indexer = true;
  EXPECT_FALSE(mixer_traits(spec).shares_selection);
  EXPECT_EQ(mixer_traits(spec).masks, 1);
}

TEST(MixerTraitsTest, CompressedAttentionKeepsAWindowOnlyIfItCompressesNothing) {
  CompressedAttentionSpec spec{.window = 16};
  EXPECT_EQ(mixer_traits(spec).window, 16);
  spec.compressed_tokens = 4;
  EXPECT_EQ(mixer_traits(spec).window, 0);
  EXPECT_EQ(mixer_traits(spec).tokens_per_indexed_key, 1);
  spec.indexer = true;
  EXPECT_EQ(mixer_traits(spec).tokens_per_indexed_key, 4);
  EXPECT_FALSE(mixer_traits(spec).scales_move);
}

TEST(MixerTraitsTest, ParallelMixersKeepWhatTheirAttentionKeeps) {
  const ParallelMixerSpec spec{.attention = windowed(16, 0)};
  EXPECT_EQ(mixer_traits(spec).window, 16);
  EXPECT_TRUE(mixer_traits(spec).overwrites_input);
}

}  // namespace
}  // namespace quire
