#include "nn/shared_block.h"

#include <algorithm>
#include <utility>

#include "nn/scratch.h"

namespace quire {

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

BlockScratch make_scratch(const SharedBlock& block, const BlockUse& use, int64_t mlp_rows,
                          ScratchLayout& layout) {
  BlockScratch out;
  const int64_t qkv_rank = use.qkv ? use.qkv->down.out_features() : 0;
  out.low = layout.matrix(std::max(qkv_rank, use.up.down.out_features()));
  ScratchLayout attention = layout.rest(layout.rows());
  out.qkv = attention.matrix(block.attention.qkv_size());
  out.heads = attention.matrix(block.attention.q_size());
  ScratchLayout mlp = layout.rest(mlp_rows);
  out.up = mlp.matrix(block.mlp.up_size());
  out.act = mlp.matrix(block.mlp.intermediate);
  layout.advance(std::max(attention.size(), mlp.size()));
  return out;
}

void apply(const OpRunner& run, const SharedBlock& block, const BlockUse& use, const Rope* rope,
           const TensorView& out, const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const KvCacheView& cache, const TensorView& normed, const BlockScratch& scratch) {
  const int64_t n = x.rows();
  const TensorView qkv = part(scratch.qkv, n, block.attention.qkv_size());
  const TensorView heads = part(scratch.heads, n, block.attention.q_size());
  // The memory of `heads` is not used before attention.
  const TensorView both = part(scratch.heads, n, x.row_size());
  apply(run, block.input_norm, both, x);
  apply(run, block.attention.qkv, qkv, both);
  if (use.qkv) add(run, *use.qkv, qkv, both, scratch.low);
  attend(run, block.attention, rope, normed, {}, batch, cache, qkv, heads);

  apply(run, block.mlp_norm, normed, normed);
  for (int64_t begin = 0; begin < n; begin += scratch.up.rows()) {
    const int64_t end = std::min(n, begin + scratch.up.rows());
    const TensorView rows = row_slice(normed, begin, end);
    const TensorView up = part(scratch.up, end - begin, block.mlp.up_size());
    const TensorView act = part(scratch.act, end - begin, block.mlp.intermediate);
    apply(run, block.mlp.up, up, rows);
    add(run, use.up, up, rows, scratch.low);
    finish(run, block.mlp, rows, {}, up, act);
  }
  apply(run, use.out, out, normed, residual);
}

void visit(const SharedBlockParts& parts, int64_t hidden_size, int32_t layer, ParamVisitor& visitor,
           SharedBlock& block) {
  visit_norm(visitor, shared_block::kInputNorm, parts.norm, 2 * hidden_size, block.input_norm);
  visit(parts.attention, {.size = 2 * hidden_size, .hidden_size = hidden_size, .layer = layer}, visitor,
        block.attention);
  visit_norm(visitor, parts.mlp_norm, parts.norm, hidden_size, block.mlp_norm);
  visit(parts.mlp, MlpParams{.move_scales = false}, {hidden_size}, visitor, block.mlp);
}

void visit(const SharedBlockSpec& spec, const AttentionSpec& attention, const MlpSpec& mlp,
           std::array<int32_t, 2> numbers, int64_t hidden_size, ParamVisitor& visitor, BlockUse& use) {
  const auto of_use = [&](ParamId id, int64_t out, int64_t in) {
    ParamSpec param = replicated(id, out, in);
    param.numbers = numbers;
    return param;
  };
  if (spec.attention_adapters) {
    Adapter& qkv = use.qkv.emplace();
    const int64_t in = 2 * hidden_size;
    visitor.matrix(
        {.label = "linear",
         .fused = {of_use(shared_block::kQLoraA, spec.rank, in), of_use(shared_block::kKLoraA, spec.rank, in),
                   of_use(shared_block::kVLoraA, spec.rank, in)}},
        qkv.down);
    const int64_t kv = int64_t{attention.num_kv_heads} * attention.head_dim;
    for (const auto& [id, out] : {std::pair(shared_block::kQLoraB, attention.q_size()),
                                  std::pair(shared_block::kKLoraB, kv), std::pair(shared_block::kVLoraB, kv)})
      visit_matrix(visitor, "linear", of_use(id, out, spec.rank), qkv.up.emplace_back());
  }
  visit_matrix(visitor, "linear", of_use(shared_block::kGateUpLoraA, spec.rank, hidden_size), use.up.down);
  visit_matrix(visitor, "linear", of_use(shared_block::kGateUpLoraB, 2 * mlp.intermediate_size, spec.rank),
               use.up.up.emplace_back());
  visit_matrix(visitor, "linear", replicated(shared_block::kLinear, hidden_size, hidden_size), use.out);
}

}  // namespace quire
