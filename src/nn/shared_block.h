// A transformer block whose weights several layers share (Zamba 2, arXiv 2411.15242). Its input is the hidden
// states concatenated with the token embeddings. Each use has low-rank adapters of its own.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "nn/mixer.h"
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
struct SharedBlock;
std::shared_ptr<SharedBlock> make_shared_block(const AttentionSpec& spec);

// The weights of one use, which also has keys and values of its own.
struct BlockUse {
  std::optional<Adapter> qkv;
  Adapter up;
  Linear out;  // [hidden, hidden]
};

// out = W_out(mlp(norm(attend(norm(x))))) + residual, with x [rows, 2 hidden]. normed [rows, hidden] is
// scratch. mlp_rows: number of rows that go through the MLP at once.
void apply(const OpRunner& run, const SharedBlock& block, const BlockUse& use, const MixerArgs& args,
           const TensorView& normed, int64_t mlp_rows);
// Scratch memory in MixerArgs::work.
void count_scratch(const SharedBlock& block, const BlockUse& use, int64_t mlp_rows, ScratchLayout& layout);

// layer: the first layer that uses the block. mlp_norm: the norm between attention and MLP.
void visit(const SharedBlockUseSpec& spec, const NormSpec& norm, ParamId mlp_norm, int64_t hidden_size,
           int32_t layer, ParamVisitor& visitor, SharedBlock& block);
void visit(const SharedBlockUseSpec& spec, int64_t hidden_size, ParamVisitor& visitor, BlockUse& use);

}  // namespace quire
