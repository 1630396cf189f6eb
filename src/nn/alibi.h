// Attention with linear biases: what positions are to models without rotation (arXiv 2108.12409).
#pragma once

#include <cstdint>
#include <vector>

namespace quire {

// A slope for each head, for AttentionParams::alibi_slopes: 2^(-max_bias * i / n) for head i = 1, 2, … where
// the number of heads n is a power of two; beyond the largest power every second slope of twice as many. Each
// times scale.
std::vector<float> alibi_slopes(int32_t num_heads, double max_bias, double scale = 1.0);

}  // namespace quire
