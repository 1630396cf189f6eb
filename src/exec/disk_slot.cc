#include "exec/disk_slot.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>

namespace quire {
namespace {

constexpr uint64_t kMagic = 0x31564B4552495551;  // "QUIREKV1" in the file

uint64_t head_checksum(const SlotHeader& header, std::span<const std::byte> token_ids) {
  const uint64_t fields = XXH3_64bits(&header, offsetof(SlotHeader, header_checksum));
  return XXH3_64bits_withSeed(token_ids.data(), token_ids.size(), fields);
}

}  // namespace

SlotSizes slot_sizes(int32_t block_size, int64_t bytes_per_block) {
  SlotSizes sizes;
  sizes.head = static_cast<int64_t>(sizeof(SlotHeader)) + int64_t{block_size} * int64_t{sizeof(TokenId)};
  sizes.block = (bytes_per_block + kBlockAlignment - 1) / kBlockAlignment * kBlockAlignment;
  return sizes;
}

uint64_t block_checksum(std::span<const std::byte> block) {
  return XXH3_64bits(block.data(), block.size());
}

void encode_head(const CachedBlockHash& key, int32_t slot, uint64_t stamp, size_t block_bytes,
                 uint64_t checksum, std::span<std::byte> head) {
  const std::span<std::byte> token_ids = head.subspan(sizeof(SlotHeader));
  std::memcpy(token_ids.data(), key.token_ids.data(), token_ids.size());
  SlotHeader header;
  header.magic = kMagic;
  header.version = kSlotVersion;
  header.slot = slot;
  header.hash_low = key.hash_low;
  header.hash_high = key.hash_high;
  header.parent_low = key.parent_low;
  header.parent_high = key.parent_high;
  header.group = key.group;
  header.num_tokens = static_cast<int32_t>(key.token_ids.size());
  header.stamp = stamp;
  header.block_bytes = block_bytes;
  header.block_checksum = checksum;
  header.header_checksum = head_checksum(header, token_ids);
  std::memcpy(head.data(), &header, sizeof(header));
}

std::optional<DecodedHead> decode_head(std::span<const std::byte> head, int32_t slot,
                                       int64_t bytes_per_block) {
  SlotHeader header;
  std::memcpy(&header, head.data(), sizeof(header));
  const std::span<const std::byte> token_ids = head.subspan(sizeof(header));
  if (header.magic != kMagic || header.version != kSlotVersion || header.slot != slot ||
      header.block_bytes != static_cast<uint64_t>(bytes_per_block) || header.num_tokens < 0 ||
      static_cast<size_t>(header.num_tokens) * sizeof(TokenId) != token_ids.size() ||
      header.header_checksum != head_checksum(header, token_ids)) {
    return std::nullopt;
  }
  DecodedHead decoded;
  decoded.key.hash_low = header.hash_low;
  decoded.key.hash_high = header.hash_high;
  decoded.key.parent_low = header.parent_low;
  decoded.key.parent_high = header.parent_high;
  decoded.key.group = header.group;
  decoded.key.token_ids.resize(static_cast<size_t>(header.num_tokens));
  std::memcpy(decoded.key.token_ids.data(), token_ids.data(), token_ids.size());
  decoded.stamp = header.stamp;
  decoded.block_checksum = header.block_checksum;
  return decoded;
}

}  // namespace quire
