// Lightning attention (arXiv 2401.04658): attention without a softmax. Each head has a matrix from keys to
// values that fades by the same factor with every token, takes the token's key and value up, and is read
// through its query.
#pragma once

#include <cstdint>

#include "nn/recurrent.h"

namespace quire {

struct LightningSizes {
  int32_t heads = 0;
  int32_t head_dim = 0;

  int64_t inner() const { return int64_t{heads} * head_dim; }
  int64_t projected() const { return 4 * inner(); }  // queries, keys, values, gates of the result
  RecurrentSizes recurrent() const {
    return {0, 1, heads, int64_t{head_dim} * head_dim, projected(), inner()};
  }
};

// Weights are read-only after load.
struct Lightning {
  LightningSizes sizes;
  Linear in;                                  // [projected, hidden]
  Activation activation = Activation::kSilu;  // of queries, keys and values
  Buffer decay;                               // float32 [heads], what a token leaves of the matrices
  Buffer step;                                // float32 [heads], ones: a token is taken up whole,
  Buffer skip;                                // float32 [heads], zeros: and counts nowhere else
  Norm norm;                                  // over all heads at once
  Linear out;                                 // [hidden, inner]
};

// What a token leaves of a head's matrix, in one of the layers of a model.
float lightning_decay(int32_t head, int32_t heads, int32_t layer, int32_t layers);

// out = lightning(x) (+ residual, which may be out). out may be x.
void apply(const OpTable& ops, const OpContext& ctx, const Lightning& lightning, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const LayerState& state, const RecurrentScratch& scratch);

}  // namespace quire
