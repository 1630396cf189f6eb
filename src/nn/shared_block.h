// A transformer block whose weights several layers share (Zamba 2, arXiv 2411.15242). Its input is the hidden
// states concatenated with the token embeddings. Each use has low-rank adapters of its own.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "nn/attention_params.h"
#include "nn/layers.h"
#include "nn/params.h"
#include "nn/scratch.h"
#include "nn/shared_block_spec.h"

namespace quire {

// A LoRA adapter of one use: adds W_up W_down x to each part of a product's columns. Weights are read-only
// after load.
struct Adapter {
  Linear down;             // [parts rank, in]
  std::vector<Linear> up;  // each [columns of the part, rank]
};
// out += adapter(x). Scratch: low [rows, at least parts rank].
void add(const OpRunner& run, const Adapter& adapter, const TensorView& out, const TensorView& x,
         const TensorView& low);

// The weights that all uses share.
struct SharedBlock {
  Norm input_norm;  // over [2 hidden]
  Attention attention;
  Norm mlp_norm;
  Mlp mlp;
};

// The weights of one use, which also has keys and values of its own.
struct BlockUse {
  std::optional<Adapter> qkv;
  Adapter up;
  Linear out;  // [hidden, hidden]
};

struct BlockScratch {
  TensorView qkv;    // [rows, qkv_size]
  TensorView heads;  // [rows, 2 hidden]
  TensorView up;     // [mlp rows, 2 intermediate], shares memory with qkv and heads
  TensorView act;    // [mlp rows, intermediate], likewise
  TensorView low;    // [rows, largest parts rank of the adapters]
};

// mlp_rows: number of rows that go through the MLP at once.
BlockScratch make_scratch(const SharedBlock& block, const BlockUse& use, int64_t mlp_rows,
                          ScratchLayout& layout);

// out = W_out(mlp(norm(attend(norm(x))))) + residual. x [rows, 2 hidden]; normed [rows, hidden] is scratch.
void apply(const OpRunner& run, const SharedBlock& block, const BlockUse& use, const Rope* rope,
           const TensorView& out, const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const KvCacheView& cache, const TensorView& normed, const BlockScratch& scratch);

struct SharedBlockParts {
  NormSpec norm;
  AttentionSpec attention;
  MlpSpec mlp;
  ParamId mlp_norm;
};
// layer: the first layer that uses the block.
void visit(const SharedBlockParts& parts, int64_t hidden_size, int32_t layer, ParamVisitor& visitor,
           SharedBlock& block);
// numbers: the number of the block and of this use, as in the names of the tensors.
void visit(const SharedBlockSpec& spec, const AttentionSpec& attention, const MlpSpec& mlp,
           std::array<int32_t, 2> numbers, int64_t hidden_size, ParamVisitor& visitor, BlockUse& use);

}  // namespace quire
