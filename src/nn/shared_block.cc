#include "nn/shared_block.h"

#include <algorithm>

#include "nn/scratch.h"

namespace quire {

void add(const OpTable& ops, const OpContext& ctx, const Adapter& adapter, const TensorView& out,
         const TensorView& x, const TensorView& low) {
  const TensorView inner = part(low, x.rows(), adapter.down.out_features());
  apply(ops, ctx, adapter.down, inner, x);
  const int64_t rank = inner.row_size() / static_cast<int64_t>(adapter.up.size());
  int64_t begin = 0;
  int64_t column = 0;
  for (const Linear& up : adapter.up) {
    const TensorView columns = column_slice(out, column, column + up.out_features());
    apply(ops, ctx, up, columns, column_slice(inner, begin, begin + rank), columns);
    begin += rank;
    column += up.out_features();
  }
}

void apply(const OpTable& ops, const OpContext& ctx, const SharedBlock& block, const BlockUse& use,
           const Rope* rope, const TensorView& out, const TensorView& x, const TensorView& residual,
           const ForwardBatch& batch, const KvCacheView& cache, const TensorView& normed,
           const BlockScratch& scratch) {
  const int64_t n = x.rows();
  const TensorView qkv = part(scratch.qkv, n, block.attention.qkv_size());
  const TensorView heads = part(scratch.heads, n, block.attention.q_size());
  // The heads' place is free until the products have read it.
  const TensorView both = part(scratch.heads, n, x.row_size());
  apply(ops, ctx, block.input_norm, both, x);
  apply(ops, ctx, block.attention.qkv, qkv, both);
  if (use.qkv) add(ops, ctx, *use.qkv, qkv, both, scratch.low);
  attend(ops, ctx, block.attention, rope, normed, {}, batch, cache, qkv, heads);

  apply(ops, ctx, block.mlp_norm, normed, normed);
  for (int64_t begin = 0; begin < n; begin += scratch.up.rows()) {
    const int64_t end = std::min(n, begin + scratch.up.rows());
    const TensorView rows = row_slice(normed, begin, end);
    const TensorView up = part(scratch.up, end - begin, block.mlp.up_size());
    const TensorView act = part(scratch.act, end - begin, block.mlp.intermediate);
    apply(ops, ctx, block.mlp.up, up, rows);
    add(ops, ctx, use.up, up, rows, scratch.low);
    finish(ops, ctx, block.mlp, rows, {}, up, act);
  }
  apply(ops, ctx, use.out, out, normed, residual);
}

}  // namespace quire
