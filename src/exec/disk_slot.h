// A slot of the disk cache as bytes: a head in one file, the block in another. Pure functions; any thread.
//
//   heads    [SlotHeader | token ids, int32 each]    one per slot, contiguous: a start reads all of them
//   blocks   [block]                                 one per slot, each at a multiple of kBlockAlignment
//
// The head's checksum covers header and token ids, and the header has the checksum of the block. After a
// crash a slot with wrong checksums counts as empty.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "contract/step_plan.h"

namespace quire {

inline constexpr uint32_t kSlotVersion = 1;  // of this layout; part of the model's fingerprint
inline constexpr int64_t kBlockAlignment = 4096;

struct SlotHeader {
  uint64_t magic = 0;
  uint32_t version = 0;
  int32_t slot = 0;
  uint64_t hash_low = 0;
  uint64_t hash_high = 0;
  uint64_t parent_low = 0;
  uint64_t parent_high = 0;
  int32_t group = 0;
  int32_t num_tokens = 0;
  uint64_t stamp = 0;  // increases from write to write
  uint64_t block_bytes = 0;
  uint64_t block_checksum = 0;
  uint64_t header_checksum = 0;  // covers the fields above and the token ids
};
static_assert(sizeof(SlotHeader) == 88);

// Sizes of a slot for blocks of block_size tokens and bytes_per_block bytes.
struct SlotSizes {
  int64_t head = 0;   // stride of heads, bytes
  int64_t block = 0;  // stride of blocks, bytes
  int64_t slot() const { return head + block; }
};
SlotSizes slot_sizes(int32_t block_size, int64_t bytes_per_block);

uint64_t block_checksum(std::span<const std::byte> block);

// Fills head [SlotSizes::head].
void encode_head(const CachedBlockHash& key, int32_t slot, uint64_t stamp, size_t block_bytes,
                 uint64_t checksum, std::span<std::byte> head);

// The content of an intact head [SlotSizes::head] of this slot; nullopt if it is not intact.
struct DecodedHead {
  CachedBlockHash key;
  uint64_t stamp = 0;
  uint64_t block_checksum = 0;
};
std::optional<DecodedHead> decode_head(std::span<const std::byte> head, int32_t slot,
                                       int64_t bytes_per_block);

}  // namespace quire
