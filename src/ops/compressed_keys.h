// Compressed keys, which stand for several tokens each (nn/compressed_attention.cc): where they are stored,
// how they are pooled, and which ones a row sees. A compressed key is stored in the block of its last token,
// before the tokens' own keys. It is therefore shared, swapped and freed with that block, and attention reads
// both kinds of keys as positions ("places") of one cache with larger blocks.
#pragma once

#include <cstdint>

#include "ops/attention.h"
#include "ops/op.h"
#include "ops/recurrent.h"

namespace quire {

struct CompressedKeys {
  int32_t tokens = 1;  // tokens per compressed key
  int32_t block = 1;   // tokens per block
  int32_t slots = 0;   // places for compressed keys per block; some may stay empty

  int64_t block_places() const { return int64_t{block} + slots; }
  int64_t place_of_token(int64_t position) const {
    return position / block * block_places() + slots + position % block;
  }
  int64_t place_of_key(int64_t index) const {
    const int64_t own = ((index + 1) * tokens - 1) / block;
    return own * block_places() + index - own * block / tokens;
  }
  // Number of compressed keys that a token sees: those whose last token is not after it.
  int64_t seen(int64_t position) const { return (position + 1) / tokens; }
};

// Places for compressed keys in a block. A multiple of 16 if the block size is one: kernels then read tiles
// without gathering their positions.
inline int32_t compressed_slots(int32_t tokens, int32_t block) {
  const int32_t max_keys = (block + tokens - 1) / tokens;
  return block % 16 == 0 ? (max_keys + 15) / 16 * 16 : max_keys;
}

// Size in floats of the state of compress_keys: for each channel of an incomplete window the highest gate,
// the sum of weights and the weighted sum.
inline int64_t compress_state(int64_t columns, bool overlap) {
  return 3 * columns * (overlap ? 2 : 1);
}

namespace ops {

// Pools every window of n tokens into one row: out[t, c] of the last token of a window is the average of
// values[j, c] over its tokens j, weighted by the softmax over them of gates[j, c] + bias[j % n, c]. Other
// rows of out are zeros. If values has 2 d columns, windows overlap: a window uses its own last d columns and
// the first d columns of the window before. The state has one part, of compress_state() floats.
struct CompressKeys {
  static constexpr const char* kName = "compress_keys";
  TensorView out;     // [rows, d]
  TensorView values;  // [rows, d] or [rows, 2 d]
  TensorView gates;   // as values
  TensorView bias;    // [n, columns of values]
  const StateBatch& batch;
  StateView state;
};
void check(const CompressKeys& op);
OpCost cost(const CompressKeys& op);
void run_reference(const OpContext& ctx, const CompressKeys& op);

// Sets each row's bits of `mask`, in places of the cache, to the tokens of its window and to the compressed
// keys that it sees. With `selected`, only the compressed keys with a set bit there count.
struct MarkCompressed {
  static constexpr const char* kName = "mark_compressed";
  SparseMask mask;              // [rows, 1, words], up to the place of the sequence's last token
  const AttentionBatch& batch;  // in tokens
  CompressedKeys keys;
  int32_t window = 0;        // tokens, including the row's own
  SparseMask selected = {};  // [rows, 1, words] by index of a compressed key, or null words: all
};
void check(const MarkCompressed& op);
OpCost cost(const MarkCompressed& op);
void run_reference(const OpContext& ctx, const MarkCompressed& op);

using CompressedKeyOps = OpList<CompressKeys, MarkCompressed>;

}  // namespace ops
}  // namespace quire
