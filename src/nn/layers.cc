#include "nn/layers.h"

#include <limits>

#include "ops/checks.h"

namespace quire {
namespace {

// Columns [begin, begin + heads * head_dim) of x [rows, n] as [rows, heads, head_dim].
TensorView head_view(const TensorView& x, int64_t begin, int64_t heads, int64_t head_dim) {
  return quire::head_view(column_slice(x, begin, begin + heads * head_dim), heads);
}

}  // namespace

TensorView head_view(const TensorView& x, int64_t heads) {
  TensorView view = x;
  view.shape = Shape{x.rows(), heads, x.row_size() / heads};
  return view;
}

TensorView vector_view(const Buffer& buffer, int64_t size) {
  if (buffer.size() == 0) return {};
  // The view is an input: nobody writes through it.
  return make_view(const_cast<std::byte*>(buffer.data()), DType::kF32, Shape{size});
}

TensorView same_rows(const Buffer& buffer, int64_t rows, int64_t size) {
  TensorView view = vector_view(buffer, size);
  view.shape = Shape{rows, size};
  view.row_stride = 0;
  return view;
}

int64_t Linear::out_features() const {
  int64_t n = weight.n;
  for (const PackedLinear& piece : more) n += piece.n;
  return n;
}

void apply(const OpTable& ops, const OpContext& ctx, const Linear& linear, const TensorView& out,
           const TensorView& x, const TensorView& residual) {
  if (linear.more.empty()) return ops.linear(ctx, out, x, linear.weight, residual);
  int64_t begin = 0;
  const auto piece = [&](const PackedLinear& w) {
    const TensorView added = residual.data == nullptr ? residual : column_slice(residual, begin, begin + w.n);
    ops.linear(ctx, column_slice(out, begin, begin + w.n), x, w, added);
    begin += w.n;
  };
  piece(linear.weight);
  for (const PackedLinear& w : linear.more) piece(w);
}

void apply(const OpTable& ops, const OpContext& ctx, const Embedding& embedding, const TensorView& out,
           std::span<const int32_t> ids) {
  if (embedding.packed != nullptr) {
    ops.embedding_packed(ctx, out, *embedding.packed, ids);
  } else {
    ops.embedding(ctx, out, embedding.table, ids);
  }
}

void apply(const OpTable& ops, const OpContext& ctx, const Norm& norm, const TensorView& out,
           const TensorView& x) {
  const TensorView weight = vector_view(norm.weight, norm.size);
  if (norm.kind == NormKind::kRms) {
    ops.rms_norm(ctx, out, x, weight, norm.eps, norm.weight_offset);
  } else {
    ops.layer_norm(ctx, out, x, weight, vector_view(norm.bias, norm.size), norm.eps);
  }
}

void apply_each(const OpTable& ops, const OpContext& ctx, const Norm& norm, const TensorView& x) {
  for (int64_t begin = 0; begin < x.row_size(); begin += norm.size) {
    const TensorView head = column_slice(x, begin, begin + norm.size);
    auto* weights = const_cast<float*>(norm.weight.as<float>()) + begin;
    const TensorView weight = make_view(weights, DType::kF32, Shape{norm.size});
    if (norm.kind == NormKind::kRms) {
      ops.rms_norm(ctx, head, head, weight, norm.eps, norm.weight_offset);
    } else {
      ops.layer_norm(ctx, head, head, weight, {}, norm.eps);
    }
  }
}

namespace {

// Queries and keys normed in place, in their part of qkv.
void norm_heads(const OpTable& ops, const OpContext& ctx, const Attention& attention, const TensorView& qkv) {
  const int64_t keys = attention.keys_begin();
  const int64_t q_size = attention.q_size();
  const int64_t kv_size = int64_t{attention.num_kv_heads} * attention.head_dim;
  if (attention.qk_norm == QkNorm::kHeads) {
    const TensorView q = head_view(qkv, 0, attention.num_heads, attention.head_dim);
    const TensorView k =
        attention.shares_cache ? q : head_view(qkv, keys, attention.num_kv_heads, attention.head_dim);
    apply(ops, ctx, *attention.q_norm, q, q);
    if (attention.k_norm) apply(ops, ctx, *attention.k_norm, k, k);
  } else if (attention.qk_norm != QkNorm::kNone) {
    const TensorView q = column_slice(qkv, 0, q_size);
    const TensorView k = column_slice(qkv, keys, keys + kv_size);
    if (attention.qk_norm == QkNorm::kEachHead) {
      apply_each(ops, ctx, *attention.q_norm, q);
      apply_each(ops, ctx, *attention.k_norm, k);
      return;
    }
    apply(ops, ctx, *attention.q_norm, q, q);
    apply(ops, ctx, *attention.k_norm, k, k);
  }
}

}  // namespace

void apply(const OpTable& ops, const OpContext& ctx, const Attention& attention, const Rope* rope,
           const TensorView& out, const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const KvCacheView& cache, const TensorView& qkv, const TensorView& heads, const KeyMask& chosen) {
  apply(ops, ctx, attention.qkv, column_slice(qkv, 0, attention.qkv_size()), x);
  attend(ops, ctx, attention, rope, out, residual, batch, cache, qkv, heads, chosen);
}

void attend(const OpTable& ops, const OpContext& ctx, const Attention& attention, const Rope* rope,
            const TensorView& out, const TensorView& residual, const ForwardBatch& batch,
            const KvCacheView& whole_cache, const TensorView& qkv_scratch, const TensorView& heads_scratch,
            const KeyMask& chosen) {
  const int64_t dim = attention.head_dim;
  // Layers may use less of a cache and of scratch than the largest of them.
  KvCacheView cache = whole_cache;
  cache.num_kv_heads = attention.num_kv_heads;
  cache.head_dim = attention.head_dim;
  cache.value_dim = attention.value_dim;
  const TensorView qkv = column_slice(qkv_scratch, 0, attention.qkv_size());
  const TensorView heads = column_slice(heads_scratch, 0, attention.result_size());
  const bool small = !attention.relative && (cache.dtype == DType::kF8E4M3 || cache.dtype == DType::kF8E5M2);
  const KvScales scales = small ? attention.kv_scales.value_or(KvScales{}) : KvScales{};
  AttentionParams params = attention.params;
  params.scale *= scales.keys;
  params.chosen = chosen;
  const auto multiply = [&](const TensorView& view, float factor) {
    if (factor != 1.0F) ops.scale_softcap(ctx, view, factor, 0.0F);
  };
  const auto finish = [&] {
    multiply(heads, scales.values);
    if (attention.gates > 0)
      ops.gate(ctx, heads, heads, column_slice(qkv, attention.q_size(), attention.keys_begin()),
               attention.gate_activation);
    if (attention.sub_norm) apply(ops, ctx, *attention.sub_norm, heads, heads);
    apply(ops, ctx, attention.out, out, heads, residual);
  };
  if (attention.shares_cache) {
    const TensorView q = head_view(qkv, 0, attention.num_heads, dim);
    norm_heads(ops, ctx, attention, qkv);
    if (rope != nullptr) apply_to_queries(ops, ctx, *rope, q, batch.positions);
    ops.paged_attention(ctx, quire::head_view(heads, attention.num_heads), q, cache, batch.attention, params);
    return finish();
  }
  const int64_t kv_size = attention.num_kv_heads * dim;
  const TensorView q = head_view(qkv, 0, attention.num_heads, dim);
  const TensorView k = head_view(qkv, attention.keys_begin(), attention.num_kv_heads, dim);
  const TensorView v =
      head_view(qkv, attention.keys_begin() + kv_size, attention.num_kv_heads, attention.value_dim);
  if (!attention.norm_turned) norm_heads(ops, ctx, attention, qkv);
  if (rope != nullptr) apply(ops, ctx, *rope, q, k, batch.positions);
  if (attention.norm_turned) norm_heads(ops, ctx, attention, qkv);
  if (attention.v_norm) apply(ops, ctx, *attention.v_norm, v, v);
  if (attention.relative) {
    ops.relative_attention(ctx, quire::head_view(heads, attention.num_heads), q, k, v, batch.attention,
                           *attention.relative);
    return finish();
  }
  multiply(k, 1.0F / scales.keys);
  multiply(v, 1.0F / scales.values);
  ops.kv_write(ctx, cache, k, v, batch.slot_mapping);
  ops.paged_attention(ctx, quire::head_view(heads, attention.num_heads), q, cache, batch.attention, params);
  finish();
}

void apply(const OpTable& ops, const OpContext& ctx, const Mlp& mlp, const TensorView& out,
           const TensorView& x, const TensorView& residual, const TensorView& up, const TensorView& act) {
  apply(ops, ctx, mlp.up, mlp.up.weight.gate ? act : up, x);
  finish(ops, ctx, mlp, out, residual, up, act);
}

void finish(const OpTable& ops, const OpContext& ctx, const Mlp& mlp, const TensorView& out,
            const TensorView& residual, const TensorView& up, const TensorView& act) {
  if (mlp.gated) {
    if (mlp.gate_multiplier != 1.0F)
      ops.scale_softcap(ctx, column_slice(up, 0, mlp.intermediate), mlp.gate_multiplier, 0.0F);
    if (mlp.gate_deviations) ops.relu_above(ctx, column_slice(up, 0, mlp.intermediate), *mlp.gate_deviations);
    if (mlp.limit > 0.0F) {
      const TensorView gates = column_slice(up, 0, mlp.intermediate);
      const TensorView ups = column_slice(up, mlp.intermediate, 2 * mlp.intermediate);
      if (!mlp.limit_first) ops.activation(ctx, gates, mlp.activation);
      ops.clamp(ctx, gates, -std::numeric_limits<float>::infinity(), mlp.limit);
      ops.clamp(ctx, ups, -mlp.limit, mlp.limit);
      ops.gate(ctx, act, ups, gates, mlp.limit_first ? mlp.activation : Activation::kNone);
    } else if (!mlp.up.weight.gate) {
      ops.gated_activation(ctx, act, up, mlp.activation);
    }
  } else if (mlp.xielu) {
    ops.xielu(ctx, up, *mlp.xielu);
  } else {
    ops.activation(ctx, up, mlp.activation);
  }
  const TensorView& inner = mlp.gated ? act : up;
  if (mlp.sub_norm) apply(ops, ctx, *mlp.sub_norm, inner, inner);
  apply(ops, ctx, mlp.down, out, inner, residual);
}

void fuse_gate(Mlp& mlp) {
  const bool plain_gates = mlp.gate_multiplier == 1.0F && !mlp.gate_deviations && mlp.limit == 0.0F;
  if (mlp.gated && plain_gates && mlp.up.more.empty() && can_gate(mlp.up.weight))
    mlp.up.weight.gate = mlp.activation;
}

void apply(const OpTable& ops, const OpContext& ctx, const Join& join, const TensorView& hidden,
           const TensorView& branch) {
  if (join.norm && !join.norm_sum) apply(ops, ctx, *join.norm, branch, branch);
  if (join.multiplier != 1.0F) ops.scale_softcap(ctx, branch, join.multiplier, 0.0F);
  if (join.residual != 1.0F) ops.scale_softcap(ctx, hidden, join.residual, 0.0F);
  ops.add(ctx, hidden, branch);
  finish(ops, ctx, join, hidden);
}

void finish(const OpTable& ops, const OpContext& ctx, const Join& join, const TensorView& hidden) {
  if (join.norm_sum) apply(ops, ctx, *join.norm, hidden, hidden);
}

}  // namespace quire
