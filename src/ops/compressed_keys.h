// Where keys lie that stand for several tokens each (nn/compressed_attention.h): in the blocks of the tokens
// that end what they stand for, before the tokens' own keys. So what a sequence has computed of them goes
// wherever its blocks go, and attention reads both kinds as positions of one cache with larger blocks.
#pragma once

#include <cstdint>

#include "ops/op_table.h"

namespace quire {

struct CompressedKeys {
  int32_t tokens = 1;  // that a key stands for
  int32_t block = 1;   // tokens of a block
  int32_t slots = 0;   // places for such keys in it, some of which may stay empty

  int64_t block_places() const { return int64_t{block} + slots; }
  int64_t place_of_token(int64_t position) const {
    return position / block * block_places() + slots + position % block;
  }
  // Of the keys before it, those that end in earlier blocks.
  int64_t place_of_key(int64_t index) const {
    const int64_t own = ((index + 1) * tokens - 1) / block;
    return own * block_places() + index - own * block / tokens;
  }
  // How many keys a token sees: those whose tokens do not come behind it.
  int64_t seen(int64_t position) const { return (position + 1) / tokens; }
};

// Places for keys of so many tokens in a block. Whole groups of 16 where the block is made of these, which
// kernels read without gathering them.
inline int32_t compressed_slots(int32_t tokens, int32_t block) {
  const int32_t most = (block + tokens - 1) / tokens;
  return block % 16 == 0 ? (most + 15) / 16 * 16 : most;
}

// Sets each row's bits, in places, to its own token and those before it within the window, and to the
// compressed keys that it sees, of these only those that `picked` has by their number; null: all. words of
// `chosen`: up to the sequence's last token. batch: in tokens.
void mark_compressed(const OpContext& ctx, const KeyMask& chosen, const AttentionBatch& batch,
                     const CompressedKeys& keys, int32_t window, const KeyMask& picked);

}  // namespace quire
