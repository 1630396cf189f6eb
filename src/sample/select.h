// Truncates a row of logits to its most probable entries by partial selection, without sorting the row.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

#include "sample/buffers.h"

namespace quire {

// The remaining entries: a whole row of logits, or a list in the buffers after truncation. Ids ascend.
// buffers.block_max always describes this row.
struct Row {
  std::span<const float> values;
  const TokenId* ids = nullptr;  // null = the index is the id
  float max = -std::numeric_limits<float>::infinity();
  float scale = 1.0F;  // 1 / temperature: an entry's weight is exp((value - max) * scale)

  TokenId id(size_t index) const { return ids != nullptr ? ids[index] : static_cast<TokenId>(index); }
};

// Keeps entries whose weight is at least min_p (the largest weight is 1), and the min_keep largest; min_p in
// (0, 1].
void keep_min_p(Row& row, float min_p, int64_t min_keep, SamplerBuffers& buffers);

// Keeps the k largest; k >= 1.
void keep_top_k(Row& row, int64_t k, SamplerBuffers& buffers);

// Keeps the smallest set of at least min_keep largest entries whose weights sum to at least top_p of all;
// top_p in (0, 1).
void keep_top_p(Row& row, float top_p, int64_t min_keep, SamplerBuffers& buffers);

// Locally typical sampling (Meister et al., 2022): the same for the entries whose -log(probability) is
// nearest to the entropy, instead of the largest.
void keep_typical(Row& row, float typical_p, int64_t min_keep, SamplerBuffers& buffers);

// Keeps values of at least the maximum minus n standard deviations (Tang et al., "Top-nσ", 2024); n > 0.
void keep_top_n_sigma(Row& row, float n, SamplerBuffers& buffers);

// XTC, "exclude top choices": of the entries whose probability is at least the threshold, keeps the smallest
// only, unless fewer than min_keep entries would remain.
void exclude_top_choices(Row& row, float threshold, int64_t min_keep, SamplerBuffers& buffers);

// Keeps entries whose surprise, -log2(probability), is at most max_surprise, and the largest entry.
void keep_surprise(Row& row, double max_surprise, SamplerBuffers& buffers);

// Replaces the row by the first `count` entries of buffers.values and .ids; keeps the scale.
void take_list(Row& row, size_t count, SamplerBuffers& buffers);

// Order by decreasing value, then ascending id.
inline bool more_likely(float value_a, TokenId id_a, float value_b, TokenId id_b) {
  return value_a > value_b || (value_a == value_b && id_a < id_b);
}

}  // namespace quire
