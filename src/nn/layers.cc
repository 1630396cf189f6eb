#include "nn/layers.h"

#include <limits>

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
  // Ops only read the view.
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

void apply(const OpRunner& run, const Linear& linear, const TensorView& out, const TensorView& x,
           const TensorView& residual) {
  if (linear.more.empty())
    return run(ops::Linear{.out = out, .x = x, .w = linear.weight, .residual = residual});
  int64_t begin = 0;
  const auto piece = [&](const PackedLinear& w) {
    const TensorView added = residual.data == nullptr ? residual : column_slice(residual, begin, begin + w.n);
    run(ops::Linear{.out = column_slice(out, begin, begin + w.n), .x = x, .w = w, .residual = added});
    begin += w.n;
  };
  piece(linear.weight);
  for (const PackedLinear& w : linear.more) piece(w);
}

void apply(const OpRunner& run, const Embedding& embedding, const TensorView& out,
           std::span<const int32_t> ids) {
  if (embedding.packed != nullptr) {
    run(ops::PackedEmbedding{.out = out, .table = *embedding.packed, .ids = ids});
  } else {
    run(ops::Embedding{.out = out, .table = embedding.table, .ids = ids});
  }
}

void apply(const OpRunner& run, const Norm& norm, const TensorView& out, const TensorView& x) {
  const TensorView weight = vector_view(norm.weight, norm.size);
  if (norm.kind == NormKind::kRms) {
    run(ops::RmsNorm{
        .out = out, .x = x, .weight = weight, .eps = norm.eps, .weight_offset = norm.weight_offset});
  } else {
    run(ops::LayerNorm{
        .out = out, .x = x, .weight = weight, .bias = vector_view(norm.bias, norm.size), .eps = norm.eps});
  }
}

void apply_each(const OpRunner& run, const Norm& norm, const TensorView& x) {
  for (int64_t begin = 0; begin < x.row_size(); begin += norm.size) {
    const TensorView head = column_slice(x, begin, begin + norm.size);
    auto* weights = const_cast<float*>(norm.weight.as<float>()) + begin;
    const TensorView weight = make_view(weights, DType::kF32, Shape{norm.size});
    if (norm.kind == NormKind::kRms) {
      run(ops::RmsNorm{
          .out = head, .x = head, .weight = weight, .eps = norm.eps, .weight_offset = norm.weight_offset});
    } else {
      run(ops::LayerNorm{.out = head, .x = head, .weight = weight, .eps = norm.eps});
    }
  }
}

namespace {

// Applies QK norm in place to the queries and keys in qkv.
void norm_heads(const OpRunner& run, const Attention& attention, const TensorView& qkv) {
  const int64_t keys = attention.keys_begin();
  const int64_t q_size = attention.q_size();
  const int64_t kv_size = int64_t{attention.num_kv_heads} * attention.head_dim;
  if (attention.qk_norm == QkNorm::kHeads) {
    const TensorView q = head_view(qkv, 0, attention.num_heads, attention.head_dim);
    const TensorView k =
        attention.shares_cache ? q : head_view(qkv, keys, attention.num_kv_heads, attention.head_dim);
    apply(run, *attention.q_norm, q, q);
    if (attention.k_norm) apply(run, *attention.k_norm, k, k);
  } else if (attention.qk_norm != QkNorm::kNone) {
    const TensorView q = column_slice(qkv, 0, q_size);
    const TensorView k = column_slice(qkv, keys, keys + kv_size);
    if (attention.qk_norm == QkNorm::kPerHeadWeights) {
      apply_each(run, *attention.q_norm, q);
      apply_each(run, *attention.k_norm, k);
      return;
    }
    apply(run, *attention.q_norm, q, q);
    apply(run, *attention.k_norm, k, k);
  }
}

}  // namespace

void apply(const OpRunner& run, const Attention& attention, const Rope* rope, const TensorView& out,
           const TensorView& x, const TensorView& residual, const ForwardBatch& batch,
           const KvCacheView& cache, const TensorView& qkv, const TensorView& heads,
           const SparseMask& chosen) {
  apply(run, attention.qkv, column_slice(qkv, 0, attention.qkv_size()), x);
  attend(run, attention, rope, out, residual, batch, cache, qkv, heads, chosen);
}

void attend(const OpRunner& run, const Attention& attention, const Rope* rope, const TensorView& out,
            const TensorView& residual, const ForwardBatch& batch, const KvCacheView& whole_cache,
            const TensorView& qkv_scratch, const TensorView& heads_scratch, const SparseMask& chosen) {
  const int64_t dim = attention.head_dim;
  // The cache and the scratch have the sizes of the largest layer.
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
    if (factor != 1.0F) run(ops::ScaleSoftcap{.x = view, .scale = factor});
  };
  const auto finish = [&] {
    multiply(heads, scales.values);
    if (attention.gates > 0)
      run(ops::Gate{.out = heads,
                    .x = heads,
                    .gate = column_slice(qkv, attention.q_size(), attention.keys_begin()),
                    .activation = attention.gate_activation});
    if (attention.sub_norm) apply(run, *attention.sub_norm, heads, heads);
    apply(run, attention.out, out, heads, residual);
  };
  if (attention.shares_cache) {
    const TensorView q = head_view(qkv, 0, attention.num_heads, dim);
    norm_heads(run, attention, qkv);
    if (rope != nullptr) apply_to_queries(run, *rope, q, batch.positions);
    run(ops::PagedAttention{.out = quire::head_view(heads, attention.num_heads),
                            .q = q,
                            .cache = cache,
                            .batch = batch.attention,
                            .params = params});
    return finish();
  }
  const int64_t kv_size = attention.num_kv_heads * dim;
  const TensorView q = head_view(qkv, 0, attention.num_heads, dim);
  const TensorView k = head_view(qkv, attention.keys_begin(), attention.num_kv_heads, dim);
  const TensorView v =
      head_view(qkv, attention.keys_begin() + kv_size, attention.num_kv_heads, attention.value_dim);
  if (!attention.norm_after_rope) norm_heads(run, attention, qkv);
  if (attention.clip_qkv > 0.0F)
    run(ops::Clamp{.x = qkv, .low = -attention.clip_qkv, .high = attention.clip_qkv});
  if (rope != nullptr) apply(run, *rope, q, k, batch.positions);
  if (attention.norm_after_rope) norm_heads(run, attention, qkv);
  if (attention.v_norm) apply(run, *attention.v_norm, v, v);
  if (attention.relative) {
    run(ops::RelativeAttention{.out = quire::head_view(heads, attention.num_heads),
                               .q = q,
                               .k = k,
                               .v = v,
                               .batch = batch.attention,
                               .params = *attention.relative});
    return finish();
  }
  multiply(k, 1.0F / scales.keys);
  multiply(v, 1.0F / scales.values);
  run(ops::KvWrite{.cache = cache, .k = k, .v = v, .slot_mapping = batch.slot_mapping});
  run(ops::PagedAttention{.out = quire::head_view(heads, attention.num_heads),
                          .q = q,
                          .cache = cache,
                          .batch = batch.attention,
                          .params = params});
  finish();
}

void apply(const OpRunner& run, const Mlp& mlp, const TensorView& out, const TensorView& x,
           const TensorView& residual, const TensorView& up, const TensorView& act) {
  apply(run, mlp.up, mlp.up.weight.gate ? act : up, x);
  finish(run, mlp, out, residual, up, act);
}

void finish(const OpRunner& run, const Mlp& mlp, const TensorView& out, const TensorView& residual,
            const TensorView& up, const TensorView& act) {
  if (mlp.gated) {
    if (mlp.gate_multiplier != 1.0F)
      run(ops::ScaleSoftcap{.x = column_slice(up, 0, mlp.intermediate), .scale = mlp.gate_multiplier});
    if (mlp.activation_sparsity_std)
      run(ops::GaussianTopk{.x = column_slice(up, 0, mlp.intermediate),
                            .std_multiplier = *mlp.activation_sparsity_std});
    if (mlp.limit > 0.0F) {
      const TensorView gates = column_slice(up, 0, mlp.intermediate);
      const TensorView ups = column_slice(up, mlp.intermediate, 2 * mlp.intermediate);
      if (!mlp.limit_first) run(ops::Activate{.x = gates, .activation = mlp.activation});
      run(ops::Clamp{.x = gates, .low = -std::numeric_limits<float>::infinity(), .high = mlp.limit});
      run(ops::Clamp{.x = ups, .low = -mlp.limit, .high = mlp.limit});
      run(ops::Gate{.out = act,
                    .x = ups,
                    .gate = gates,
                    .activation = mlp.limit_first ? mlp.activation : Activation::kNone});
    } else if (!mlp.up.weight.gate) {
      run(ops::GatedActivation{.out = act, .gate_up = up, .activation = mlp.activation});
    }
  } else if (mlp.xielu) {
    run(ops::Xielu{.x = up, .params = *mlp.xielu});
  } else {
    run(ops::Activate{.x = up, .activation = mlp.activation});
  }
  const TensorView& inner = mlp.gated ? act : up;
  if (mlp.sub_norm) apply(run, *mlp.sub_norm, inner, inner);
  apply(run, mlp.down, out, inner, residual);
}

void fuse_gate(Mlp& mlp) {
  const bool plain_gates = mlp.gate_multiplier == 1.0F && !mlp.activation_sparsity_std && mlp.limit == 0.0F;
  if (mlp.gated && plain_gates && mlp.up.more.empty() && can_gate(mlp.up.weight))
    mlp.up.weight.gate = mlp.activation;
}

void apply(const OpRunner& run, const ResidualAdd& join, const TensorView& hidden, const TensorView& branch) {
  if (join.norm && !join.norm_sum) apply(run, *join.norm, branch, branch);
  if (join.multiplier != 1.0F) run(ops::ScaleSoftcap{.x = branch, .scale = join.multiplier});
  if (join.residual != 1.0F) run(ops::ScaleSoftcap{.x = hidden, .scale = join.residual});
  run(ops::Add{.x = hidden, .y = branch});
  finish(run, join, hidden);
}

void finish(const OpRunner& run, const ResidualAdd& join, const TensorView& hidden) {
  if (join.norm_sum) apply(run, *join.norm, hidden, hidden);
}

}  // namespace quire
