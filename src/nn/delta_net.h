// Gated delta nets (arXiv 2412.06464): for each head a matrix from keys to values that fades, and is
// corrected by what it foresees wrongly of each token.
#pragma once

#include <cstdint>

#include "nn/recurrent.h"

namespace quire {

struct DeltaNetSizes {
  int32_t key_heads = 0;
  int32_t value_heads = 0;  // a multiple of key_heads
  int32_t key_dim = 0;
  int32_t value_dim = 0;
  int32_t taps = 4;
  // Which key head a value head h has: h % key_heads, or else its share of the key heads one after the other.
  bool in_turn = false;

  int64_t keys() const { return int64_t{key_heads} * key_dim; }
  int64_t values() const { return int64_t{value_heads} * value_dim; }
  int64_t channels() const { return 2 * keys() + values(); }
  // Queries, keys, values; gates of the result; how much is taken up, and how fast it fades.
  int64_t projected() const { return channels() + values() + 2 * int64_t{value_heads}; }
  RecurrentSizes recurrent() const {
    return {channels(), taps, value_heads, int64_t{key_dim} * value_dim, projected(), values()};
  }
};

// Weights are read-only after load.
struct DeltaNet {
  DeltaNetSizes sizes;
  Linear in;           // [channels + values, hidden]: queries, keys, values, gates
  Linear steps;        // [2 value_heads, hidden]: how much is taken up, and how fast the matrix fades
  float share = 1.0F;  // multiplies how much is taken up; above 1 the matrix may turn what it knows around
  CausalConv conv;
  Norm query_norm;   // to length 1 / sqrt(key_dim)
  Norm key_norm;     // to length 1
  Buffer step_bias;  // float32 [value_heads]
  Buffer rate;       // float32 [value_heads], negative
  Norm norm;         // [value_dim], of each head
  Linear out;        // [hidden, values]
};

// The norm that divides vectors of that size by their length, and multiplies with `length`.
Norm length_norm(int64_t size, float length);

// out = delta_net(x) (+ residual, which may be out). out may be x.
void apply(const OpTable& ops, const OpContext& ctx, const DeltaNet& net, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const LayerState& state, const RecurrentScratch& scratch);

}  // namespace quire
