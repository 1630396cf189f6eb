#include "nn/shared_block.h"

#include <algorithm>
#include <utility>

#include "nn/attention.h"
#include "nn/mlp.h"

namespace quire {

struct SharedBlock {
  Norm input_norm;  // over [2 hidden]
  Attention attention;
  Norm mlp_norm;
  Mlp mlp;

  explicit SharedBlock(const AttentionSpec& spec) : attention(spec) {}
};

namespace {

struct BlockScratch {
  const SharedBlock& block;
  const BlockUse& use;
  int64_t mlp_rows;
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
};

}  // namespace

std::shared_ptr<SharedBlock> make_shared_block(const AttentionSpec& spec) {
  return std::make_shared<SharedBlock>(spec);
}

void count_scratch(const SharedBlock& block, const BlockUse& use, int64_t mlp_rows, ScratchLayout& layout) {
  const BlockScratch at{block, use, mlp_rows, layout};
  layout = at.layout;
  layout.advance(std::max(at.of_attention.size(), at.of_mlp.size()));
}

void add(const OpRunner& run, const Adapter& adapter, const TensorView& out, const TensorView& x,
         const TensorView& low) {
  const TensorView inner = part(low, x.rows(), adapter.down.out_features());
  apply(run, adapter.down, inner, x);
  const int64_t rank = inner.row_size() / static_cast<int64_t>(adapter.up.size());
  int64_t begin = 0;
  int64_t column = 0;
  for (const Linear& up : adapter.up) {
    const TensorView columns = column_slice(out, column, column + up.out_features());
    apply(run, up, columns, column_slice(inner, begin, begin + rank), columns);
    begin += rank;
    column += up.out_features();
  }
}

void apply(const OpRunner& run, const SharedBlock& block, const BlockUse& use, const MixerArgs& args,
           const TensorView& normed, int64_t mlp_rows) {
  const BlockScratch at{block, use, mlp_rows, args.layout()};
  const AttentionSpec& attention = block.attention.spec;
  const int64_t n = args.x.rows();
  // The memory of `heads` is not used before attention.
  const TensorView both = column_slice(at.heads, 0, args.x.row_size());
  apply(run, block.input_norm, both, args.x);
  apply(run, block.attention.qkv_proj, at.qkv, both);
  if (use.qkv) add(run, *use.qkv, at.qkv, both, at.low);
  MixerArgs of_attention = args;
  of_attention.out = normed;
  of_attention.residual = {};
  block.attention.attend(run, of_attention, at.qkv, column_slice(at.heads, 0, attention.result_size()));

  apply(run, block.mlp_norm, normed, normed);
  for (int64_t begin = 0; begin < n; begin += at.up.rows()) {
    const int64_t end = std::min(n, begin + at.up.rows());
    const RunnerOfRows runner(run, begin, end);
    const OpRunner& of_rows = runner.get();
    const TensorView rows = row_slice(normed, begin, end);
    const TensorView up = row_slice(at.up, 0, end - begin);
    const TensorView act = row_slice(at.act, 0, end - begin);
    apply(of_rows, block.mlp.up, up, rows);
    add(of_rows, use.up, up, rows, at.low);
    finish(of_rows, block.mlp, rows, {}, up, act);
  }
  apply(run, use.out, args.out, normed, args.residual);
}

void visit(const SharedBlockUseSpec& spec, const NormSpec& norm, ParamId mlp_norm, int64_t hidden_size,
           int32_t layer, ParamVisitor& visitor, SharedBlock& block) {
  visit_norm(visitor, shared_block::kInputNorm, norm, 2 * hidden_size, block.input_norm);
  block.attention.visit({.size = 2 * hidden_size, .hidden_size = hidden_size, .layer = layer}, visitor);
  visit_norm(visitor, mlp_norm, norm, hidden_size, block.mlp_norm);
  // The adapters add to the ups before the activation.
  visit(spec.mlp, MlpParams{.move_scales = false, .fuse_gate = false}, {hidden_size}, visitor, block.mlp);
}

void visit(const SharedBlockUseSpec& spec, int64_t hidden_size, ParamVisitor& visitor, BlockUse& use) {
  const int64_t rank = spec.adapters.rank;
  // The names of the tensors have the number of the block and of this use.
  const auto of_use = [&](ParamId id, int64_t out, int64_t in) {
    ParamSpec param = replicated(id, out, in);
    param.numbers = {spec.owner, spec.use};
    return param;
  };
  if (spec.adapters.attention_adapters) {
    Adapter& qkv = use.qkv.emplace();
    const int64_t in = 2 * hidden_size;
    visitor.matrix(
        {.label = "linear",
         .fused = {of_use(shared_block::kQLoraA, rank, in), of_use(shared_block::kKLoraA, rank, in),
                   of_use(shared_block::kVLoraA, rank, in)}},
        qkv.down);
    const int64_t kv = spec.attention.kv_size();
    for (const auto& [id, out] : {std::pair(shared_block::kQLoraB, spec.attention.q_size()),
                                  std::pair(shared_block::kKLoraB, kv), std::pair(shared_block::kVLoraB, kv)})
      visit_matrix(visitor, "linear", of_use(id, out, rank), qkv.up.emplace_back());
  }
  visit_matrix(visitor, "linear", of_use(shared_block::kGateUpLoraA, rank, hidden_size), use.up.down);
  visit_matrix(visitor, "linear", of_use(shared_block::kGateUpLoraB, 2 * spec.mlp.intermediate_size, rank),
               use.up.up.emplace_back());
  visit_matrix(visitor, "linear", replicated(shared_block::kLinear, hidden_size, hidden_size), use.out);
}

}  // namespace quire
