// Cutting a row of logits to its likely entries by partial selection: nothing here sorts the row.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "sample/buffers.h"

namespace quire {

// The entries that are still in play: a whole row of logits, or a list in the buffers. Ids ascend. Cuts
// replace the first by the second. buffers.block_max belongs to the row at all times.
struct Row {
  std::span<const float> values;
  const TokenId* ids = nullptr;  // null: the index is the id
  float max = -std::numeric_limits<float>::infinity();
  float scale = 1.0F;  // 1 / temperature: an entry's weight is exp((value - max) * scale)

  TokenId id(size_t index) const { return ids != nullptr ? ids[index] : static_cast<TokenId>(index); }
};

// Keeps entries whose weight is at least min_p (the largest weight is 1); min_p in (0, 1].
void keep_min_p(Row& row, float min_p, SamplerBuffers& buffers);

// Keeps the k largest; k >= 1.
void keep_top_k(Row& row, int64_t k, SamplerBuffers& buffers);

// Keeps the smallest set of largest entries whose weights sum to at least top_p of all; top_p in (0, 1).
void keep_top_p(Row& row, float top_p, SamplerBuffers& buffers);

// Makes the first `count` entries of buffers.values and .ids the row; the scale stays.
void take_list(Row& row, size_t count, SamplerBuffers& buffers);

// More likely first: the larger value, of equal ones the lower id.
inline bool more_likely(float value_a, TokenId id_a, float value_b, TokenId id_b) {
  return value_a > value_b || (value_a == value_b && id_a < id_b);
}

}  // namespace quire
