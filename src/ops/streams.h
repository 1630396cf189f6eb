// Hyper-connections (arXiv 2512.24880): several residual streams per token.
#pragma once

#include <cstdint>

#include "ops/op.h"
#include "tensor/tensor.h"

namespace quire {

inline constexpr int64_t kMaxStreams = 16;  // hc_mult of hyper_connection

struct StreamParams {
  int32_t sinkhorn_iters =
      1;             // hc_sinkhorn_iters: sinkhorn_iters of column and row normalization of the mixing matrix
  float eps = 0.0F;  // hc_eps
};

namespace ops {

// The weights with which s streams are read and written around a layer, from the scores of each row.
// pre[i] = sigmoid(scale[0] scores[i] + base[i]) + eps. The next s scores, with scale[1], give
// h[k] = 2 sigmoid(...). The last s * s, with scale[2], give a matrix M [s, s]: a softmax of each row + eps,
// whose columns, then rows and columns alternately, are divided by their sums + eps. post holds for each
// stream k the s + 1 weights M[0, k], ..., M[s - 1, k], h[k].
struct HyperConnection {
  static constexpr const char* kName = "hyper_connection";
  TensorView pre;        // [rows, s], s at most kMaxStreams
  TensorView post = {};  // [rows, s (s + 1)]; null data: only pre is computed
  TensorView scores;     // [rows, s (s + 2)], without post [rows, s]
  TensorView base;       // [columns of scores]
  TensorView scale;      // [3], without post [1]
  StreamParams params = {};
};
void check(const HyperConnection& op);
OpCost cost(const HyperConnection& op);
void run_reference(const OpContext& ctx, const HyperConnection& op);

using StreamOps = OpList<HyperConnection>;

}  // namespace ops
}  // namespace quire
