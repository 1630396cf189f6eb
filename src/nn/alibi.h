// Attention with linear biases (ALiBi, arXiv 2108.12409), for models without rotary embeddings.
#pragma once

#include <cstdint>
#include <vector>

namespace quire {

// One slope per head, multiplied by `scale`, for AttentionParams::alibi_slopes. With n heads, n a power of
// two, head i = 1, 2, … has 2^(-max_bias * i / n). Otherwise the heads after the largest power of two p <= n
// have every second slope of 2p heads.
std::vector<float> alibi_slopes(int32_t num_heads, double max_bias, double scale = 1.0);

}  // namespace quire
