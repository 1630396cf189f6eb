// The hash of a full block in the prefix cache: 128 bits, chained over all blocks before it, so that equal
// hashes mean equal prefixes. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "contract/ids.h"

namespace quire {

struct BlockHash {
  uint64_t low = 0;
  uint64_t high = 0;

  friend bool operator==(const BlockHash&, const BlockHash&) = default;
};

// XXH3-128 with a secret seed, so that clients cannot compute hashes. A hash only locates a block:
// PrefixIndex compares the tokens of the block that it finds.
class BlockHasher {
 public:
  // bits: how many bits of a hash are kept, 1 .. 128. With fewer bits collisions are more likely, which costs
  // hits.
  explicit BlockHasher(uint64_t seed, int32_t bits = 128);

  // The parent hash of a first block. It separates caches that must not share blocks: adapters
  // (AdapterRef::digest), and values of cache_salt.
  BlockHash root(std::string_view adapter, std::string_view cache_salt) const;

  // The hash of the block that holds token_ids and follows the block (or root) with the hash `parent`.
  BlockHash block(const BlockHash& parent, std::span<const TokenId> token_ids) const;

 private:
  uint64_t seed_;
  BlockHash mask_;
};

}  // namespace quire
