// A transformer block whose weights several layers share (Zamba 2, arXiv 2411.15242). Its input is the hidden
// states concatenated with the token embeddings. Each use has low-rank adapters of its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "nn/attention.h"
#include "nn/mlp.h"
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

  explicit SharedBlock(const AttentionSpec& spec) : attention(spec) {}
};

// The weights of one use, which also has keys and values of its own.
struct BlockUse {
  std::optional<Adapter> qkv;
  Adapter up;
  Linear out;  // [hidden, hidden]
};

struct BlockScratch {
  const SharedBlock& block;
  const BlockUse& use;
  int64_t mlp_rows;  // number of rows that go through the MLP at once
  ScratchLayout layout;
  int64_t qkv_rank = use.qkv ? use.qkv->down.out_features() : 0;
  TensorView low = layout.matrix(std::max(qkv_rank, use.up.down.out_features()));
  // Attention and the MLP use the same memory.
  ScratchLayout of_attention = layout.rest(layout.rows());
  TensorView qkv = of_attention.matrix(block.attention.spec.qkv_size());
  TensorView heads = of_attention.matrix(block.attention.spec.q_size());
  ScratchLayout of_mlp = layout.rest(mlp_rows);
  TensorView up = of_mlp.matrix(block.mlp.spec.up_size());
  TensorView act = of_mlp.matrix(block.mlp.spec.intermediate_size);

  int64_t size() const { return layout.size() + std::max(of_attention.size(), of_mlp.size()); }
};

// out = W_out(mlp(norm(attend(norm(x))))) + residual, with x [rows, 2 hidden]. normed [rows, hidden] is
// scratch.
void apply(const OpRunner& run, const SharedBlock& block, const BlockUse& use, const MixerArgs& args,
           const TensorView& normed, int64_t mlp_rows);

// layer: the first layer that uses the block. mlp_norm: the norm between attention and MLP.
void visit(const SharedBlockUseSpec& spec, const NormSpec& norm, ParamId mlp_norm, int64_t hidden_size,
           int32_t layer, ParamVisitor& visitor, SharedBlock& block);
void visit(const SharedBlockUseSpec& spec, int64_t hidden_size, ParamVisitor& visitor, BlockUse& use);

}  // namespace quire
