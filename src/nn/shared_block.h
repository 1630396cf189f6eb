// A transformer block that several layers use in turn (Zamba 2, arXiv 2411.15242): it reads the hidden states
// and the tokens' vectors side by side, and each use adds products of its own, of low rank, to some of its.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/layers.h"

namespace quire {

// What a use adds to a product: to each part of its columns W_up W_down x. Weights are read-only after load.
struct Adapter {
  Linear down;             // [parts rank, in]
  std::vector<Linear> up;  // each [columns of the part, rank]
};
// out += what the adapter makes of x. Scratch: low [rows, at least parts rank].
void add(const OpTable& ops, const OpContext& ctx, const Adapter& adapter, const TensorView& out,
         const TensorView& x, const TensorView& low);

// What all uses share.
struct SharedBlock {
  Norm input_norm;  // over [2 hidden]
  Attention attention;
  Norm mlp_norm;
  Mlp mlp;
};

// What a use has of its own; its keys and values are its own too.
struct BlockUse {
  std::optional<Adapter> qkv;
  Adapter up;
  Linear out;  // [hidden, hidden]
};

// Views of memory that may be larger than a step needs.
struct BlockScratch {
  TensorView qkv;    // [rows, qkv_size]
  TensorView heads;  // [rows, 2 hidden]
  TensorView up;     // [mlp rows, 2 intermediate], shares memory with qkv and heads
  TensorView act;    // [mlp rows, intermediate], likewise
  TensorView low;    // [rows, parts rank] of the adapter that has most
};

// out = W_out(mlp(norm(attend(norm(x))))) + residual. x [rows, 2 hidden], normed [rows, hidden]: more
// scratch.
void apply(const OpTable& ops, const OpContext& ctx, const SharedBlock& block, const BlockUse& use,
           const Rope* rope, const TensorView& out, const TensorView& x, const TensorView& residual,
           const ForwardBatch& batch, const KvCacheView& cache, const TensorView& normed,
           const BlockScratch& scratch);

}  // namespace quire
