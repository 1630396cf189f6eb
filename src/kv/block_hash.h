// The name of a full block in the prefix cache: a 128-bit hash chained over everything before it, so that
// equal names mean equal prefixes. Pure functions; any thread.
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

// XXH3-128 with a seed of this process, so that nobody outside can compute names. A name decides where to
// look and never what to serve: PrefixIndex compares the tokens of what it finds.
class BlockHasher {
 public:
  // `bits`: how many bits of a block's name are kept, 1 .. 128. Fewer make collisions likelier (which costs
  // hits).
  explicit BlockHasher(uint64_t seed, int32_t bits = 128);

  // The parent of a first block: what separates caches that must not meet (adapter, the request's
  // cache_salt).
  BlockHash root(int32_t adapter, std::string_view cache_salt) const;

  // The name of the block that holds `token_ids` and follows the block (or root) named `parent`.
  BlockHash block(const BlockHash& parent, std::span<const TokenId> token_ids) const;

 private:
  uint64_t seed_;
  BlockHash mask_;
};

}  // namespace quire
