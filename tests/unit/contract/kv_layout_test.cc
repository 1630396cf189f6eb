#include "contract/kv_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace quire {
namespace {

const KvGroupSpec kFullGroup = {KvGroupKind::kFull, 0, {}};
const KvGroupSpec kWindowOf10 = {KvGroupKind::kSlidingWindow, 10, {}};
const KvGroupSpec kChunksOf10 = {KvGroupKind::kChunked, 10, {}};
const KvGroupSpec kStateGroup = {KvGroupKind::kState, 0, {}};

KvLayout layout_of(std::vector<KvGroupSpec> groups) {
  KvLayout layout;
  layout.block_size = 4;
  layout.bytes_per_block = 400;
  layout.groups = std::move(groups);
  return layout;
}

// Maximum number of blocks in use while the sequence is computed in steps of max_chunk tokens.
int64_t simulated_blocks(const KvGroupSpec& group, int32_t block_size, int64_t num_tokens,
                         int64_t max_chunk) {
  int64_t largest = 0;
  for (int64_t first = 1; first <= max_chunk; ++first) {
    int64_t chunk = first;
    for (int64_t computed = 0; computed < num_tokens; computed += chunk, chunk = max_chunk) {
      const int64_t end = std::min(num_tokens, computed + chunk);
      const int64_t begin = first_visible_position(group, computed) / block_size;
      largest = std::max(largest, (end + block_size - 1) / block_size - begin);
    }
  }
  return largest;
}

TEST(KvLayout, FindsTheFirstVisiblePosition) {
  EXPECT_EQ(first_visible_position(kFullGroup, 35), 0);
  EXPECT_EQ(first_visible_position(kStateGroup, 35), 0);
  EXPECT_EQ(first_visible_position(kWindowOf10, 9), 0);
  EXPECT_EQ(first_visible_position(kWindowOf10, 10), 1);
  EXPECT_EQ(first_visible_position(kWindowOf10, 35), 26);
  EXPECT_EQ(first_visible_position(kChunksOf10, 9), 0);
  EXPECT_EQ(first_visible_position(kChunksOf10, 10), 10);
  EXPECT_EQ(first_visible_position(kChunksOf10, 35), 30);
}

TEST(KvLayout, BoundsTheBlocksOfASequence) {
  for (const int32_t block_size : {1, 3, 4, 16}) {
    for (const int64_t num_tokens : {0, 1, 9, 10, 11, 40, 97}) {
      for (const int64_t max_chunk : {1, 2, 5, 16, 64}) {
        SCOPED_TRACE(testing::Message() << "blocks of " << block_size << ", " << num_tokens
                                        << " tokens, chunks of " << max_chunk);
        EXPECT_EQ(max_group_blocks(kFullGroup, block_size, num_tokens, max_chunk),
                  (num_tokens + block_size - 1) / block_size);
        for (const KvGroupSpec& group : {kWindowOf10, kChunksOf10}) {
          EXPECT_GE(max_group_blocks(group, block_size, num_tokens, max_chunk),
                    simulated_blocks(group, block_size, num_tokens, max_chunk));
        }
      }
    }
  }
  // A long sequence reaches the bound of a window.
  for (const int32_t block_size : {1, 3, 4, 16})
    EXPECT_EQ(max_group_blocks(kWindowOf10, block_size, 500, 1),
              simulated_blocks(kWindowOf10, block_size, 500, 1));
}

TEST(KvLayout, CountsStatesTwice) {
  const KvLayout layout = layout_of({kFullGroup, kStateGroup, kStateGroup});
  EXPECT_EQ(state_blocks(layout), 4);
  EXPECT_EQ(max_sequence_blocks(layout, 9, 64), 3 + 4);
  EXPECT_EQ(max_sequence_tokens(layout, 7, 64), 12);
  EXPECT_EQ(max_sequence_tokens(layout, 4, 64), 0);
  EXPECT_EQ(max_sequence_tokens(layout_of({kStateGroup}), 2, 64), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(max_sequence_tokens(layout_of({kStateGroup}), 1, 64), 0);
}

TEST(KvLayout, CountsTheChunkOfAStepOnce) {
  const KvLayout layout = layout_of({kFullGroup, kWindowOf10, kWindowOf10});
  // 100 tokens: 25 full blocks, and at most 4 blocks for a window of 10 that may begin at any slot.
  EXPECT_EQ(max_sequence_blocks(layout, 100, 1), 25 + 2 * 4);
  // Chunks of 16 tokens: 10 - 1 + 16 positions, 7 blocks.
  EXPECT_EQ(max_sequence_blocks(layout, 100, 16), 25 + 2 * 7);
  EXPECT_EQ(max_sequences(layout, 33 * 10 + 6, 100, 16), 10);
  EXPECT_EQ(max_sequences(layout, 33 * 10 + 5, 100, 16), 9);
  EXPECT_EQ(max_sequences(layout, 3, 100, 16), 0);
}

TEST(KvLayout, CountsBytesPerToken) {
  const KvLayout layout = layout_of({kFullGroup, kWindowOf10, kChunksOf10, kStateGroup});
  EXPECT_EQ(kv_bytes_per_token(layout), 300);
  EXPECT_EQ(kv_bytes_per_old_token(layout), 100);
  EXPECT_EQ(kv_bytes_per_token(layout_of({kStateGroup})), 0);
}

}  // namespace
}  // namespace quire
