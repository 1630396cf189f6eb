#include "kv/block_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <array>
#include <cstring>

namespace quire {

namespace {

uint64_t low_bits(int32_t count) {
  if (count <= 0) return 0;
  return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
}

BlockHash digest(XXH3_state_t& state) {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {hash.low64, hash.high64};
}

}  // namespace

BlockHasher::BlockHasher(uint64_t seed, int32_t bits)
    : seed_(seed), mask_{low_bits(bits), low_bits(bits - 64)} {}

BlockHash BlockHasher::root(std::string_view adapter, std::string_view cache_salt) const {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_128bits_reset_withSeed(&state, seed_);
  const auto adapter_size = static_cast<uint32_t>(adapter.size());
  XXH3_128bits_update(&state, &adapter_size, sizeof(adapter_size));
  XXH3_128bits_update(&state, adapter.data(), adapter.size());
  XXH3_128bits_update(&state, cache_salt.data(), cache_salt.size());
  return digest(state);
}

BlockHash BlockHasher::block(const BlockHash& parent, std::span<const TokenId> token_ids) const {
  // Small blocks are hashed in one call, which is several times faster than the streaming interface.
  constexpr size_t kMaxInOnePiece = 1024;
  const size_t num_token_bytes = token_ids.size_bytes();
  BlockHash hash;
  if (num_token_bytes <= kMaxInOnePiece) {
    std::array<unsigned char, sizeof(BlockHash) + kMaxInOnePiece> bytes;
    std::memcpy(bytes.data(), &parent, sizeof(parent));
    if (num_token_bytes > 0) std::memcpy(bytes.data() + sizeof(parent), token_ids.data(), num_token_bytes);
    const XXH128_hash_t value = XXH3_128bits_withSeed(bytes.data(), sizeof(parent) + num_token_bytes, seed_);
    hash = {value.low64, value.high64};
  } else {
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    XXH3_128bits_reset_withSeed(&state, seed_);
    XXH3_128bits_update(&state, &parent, sizeof(parent));
    XXH3_128bits_update(&state, token_ids.data(), num_token_bytes);
    hash = digest(state);
  }
  return {hash.low & mask_.low, hash.high & mask_.high};
}

}  // namespace quire
