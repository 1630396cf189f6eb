#include "contract/kv_layout.h"

#include <algorithm>
#include <limits>

namespace quire {

namespace {

int64_t blocks_for(int64_t num_tokens, int32_t block_size) {
  return (num_tokens + block_size - 1) / block_size;
}

int64_t count_groups(const KvLayout& layout, bool (*counts)(const KvGroupSpec&)) {
  return std::count_if(layout.groups.begin(), layout.groups.end(), counts);
}

int64_t bytes_per_token(const KvLayout& layout, int64_t num_groups) {
  return num_groups * layout.bytes_per_block / layout.block_size;
}

}  // namespace

int64_t first_visible_position(const KvGroupSpec& group, int64_t position) {
  switch (group.kind) {
    case KvGroupKind::kSlidingWindow:
      return std::max<int64_t>(0, position - group.window + 1);
    case KvGroupKind::kChunked:
      return position / group.window * group.window;
    case KvGroupKind::kFull:
    case KvGroupKind::kState:
      return 0;
  }
  return 0;
}

int64_t max_group_blocks(const KvGroupSpec& group, int32_t block_size, int64_t num_tokens,
                         int64_t max_chunk) {
  const int64_t all = blocks_for(num_tokens, block_size);
  if (group.kind == KvGroupKind::kFull) return all;
  if (group.kind == KvGroupKind::kState) return 2 * std::min<int64_t>(all, 1);
  // A step computes max_chunk tokens, the first of which attends to window - 1 earlier ones. This run of
  // positions may begin at the last slot of a block.
  const int64_t num_positions = group.window - 1 + std::max<int64_t>(1, max_chunk);
  return std::min(all, blocks_for(num_positions - 1, block_size) + 1);
}

int64_t max_sequence_blocks(const KvLayout& layout, int64_t num_tokens, int64_t max_chunk) {
  int64_t sum = 0;
  for (const KvGroupSpec& group : layout.groups)
    sum += max_group_blocks(group, layout.block_size, num_tokens, max_chunk);
  return sum;
}

int64_t max_sequence_tokens(const KvLayout& layout, int64_t num_blocks, int64_t max_chunk) {
  constexpr int64_t kLongest = std::numeric_limits<int32_t>::max();
  if (max_sequence_blocks(layout, kLongest, max_chunk) <= num_blocks) return kLongest;
  int64_t fits = 0;
  int64_t too_long = kLongest;
  while (too_long - fits > 1) {
    const int64_t middle = fits + (too_long - fits) / 2;
    (max_sequence_blocks(layout, middle, max_chunk) <= num_blocks ? fits : too_long) = middle;
  }
  return fits;
}

int64_t max_sequences(const KvLayout& layout, int64_t num_blocks, int64_t num_tokens, int64_t max_chunk) {
  // Between steps a sequence holds what decoding needs; the blocks for a step's chunk exist once.
  const int64_t per_sequence = max_sequence_blocks(layout, num_tokens, 1);
  const int64_t for_chunk = max_sequence_blocks(layout, num_tokens, max_chunk) - per_sequence;
  return std::max<int64_t>(0, num_blocks - for_chunk) / std::max<int64_t>(1, per_sequence);
}

int64_t kv_bytes_per_token(const KvLayout& layout) {
  return bytes_per_token(layout, count_groups(layout, is_attention_group));
}

int64_t kv_bytes_per_old_token(const KvLayout& layout) {
  return bytes_per_token(layout, count_groups(layout, [](const KvGroupSpec& group) {
                           return group.kind == KvGroupKind::kFull;
                         }));
}

int64_t state_blocks(const KvLayout& layout) {
  return 2 * count_groups(layout, [](const KvGroupSpec& group) { return !is_attention_group(group); });
}

}  // namespace quire
