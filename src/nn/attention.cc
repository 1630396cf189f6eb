#include "nn/attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace quire {
namespace {

struct AttentionScratch {
  const AttentionSpec& spec;
  ScratchLayout layout;
  TensorView qkv = layout.matrix(spec.qkv_size());
  TensorView heads = layout.matrix(spec.result_size());
  IndexerScratch indexer{spec.indexer.value_or(IndexerSizes{}), layout};
};

// Applies QK norm in place to x [rows, heads * head_dim].
void norm_heads(const OpRunner& run, const AttentionSpec& spec, const Norm& norm, const TensorView& x) {
  if (spec.qk_norm == QkNorm::kPerHeadWeights) return apply_each(run, norm, x);
  const TensorView view = spec.qk_norm == QkNorm::kHeads ? head_view(x, x.row_size() / spec.head_dim) : x;
  apply(run, norm, view, view);
}

// One call of Attention::attend.
struct AttentionStep {
  const Attention& layer;
  const AttentionSpec& spec;
  const OpRunner& run;
  const MixerArgs& args;
  TensorView qkv;    // [rows, qkv_size]
  TensorView heads;  // [rows, result_size]
  TensorView queries;
  TensorView keys;  // empty, as k and v, if the layer shares a cache
  TensorView q;     // [rows, heads, head_dim], as the next two
  TensorView k;
  TensorView v;
  KvCacheView cache;
  KvScales scales;

  AttentionStep(const Attention& attention, const OpRunner& runner, const MixerArgs& mixer_args,
                const TensorView& projected, const TensorView& result)
      : layer(attention),
        spec(attention.spec),
        run(runner),
        args(mixer_args),
        qkv(projected),
        heads(result),
        queries(column_slice(qkv, 0, spec.q_size())),
        q(head_view(queries, spec.num_heads)),
        cache(args.kv) {
    if (!spec.shares_cache()) {
      keys = column_slice(qkv, spec.keys_begin(), spec.values_begin());
      k = head_view(keys, spec.num_kv_heads);
      v = head_view(column_slice(qkv, spec.values_begin(), spec.qkv_size()), spec.num_kv_heads);
    }
    // The cache has the sizes of the largest layer.
    cache.num_kv_heads = spec.num_kv_heads;
    cache.head_dim = spec.head_dim;
    cache.value_dim = spec.value_dim;
    const bool fp8 = cache.dtype == DType::kF8E4M3 || cache.dtype == DType::kF8E5M2;
    if (fp8 && !spec.relative) scales = layer.kv_scales.value_or(KvScales{});
  }

  void multiply(const TensorView& view, float factor) const {
    if (factor != 1.0F) run(ops::ScaleSoftcap{.x = view, .scale = factor});
  }
};

// Normalizes, clamps and rotates queries, keys and values in place.
void prepare_heads(const AttentionStep& step) {
  const AttentionSpec& spec = step.spec;
  const auto norm_queries_and_keys = [&] {
    if (step.layer.q_norm) norm_heads(step.run, spec, *step.layer.q_norm, step.queries);
    if (step.layer.k_norm) norm_heads(step.run, spec, *step.layer.k_norm, step.keys);
  };
  const Rope* rope = step.args.rope;
  if (!spec.qk_norm_after_rope) norm_queries_and_keys();
  if (spec.clip_qkv > 0.0F) step.run(ops::Clamp{.x = step.qkv, .low = -spec.clip_qkv, .high = spec.clip_qkv});
  if (rope != nullptr && !spec.shares_cache())
    apply(step.run, *rope, step.q, step.k, step.args.batch.positions);
  if (rope != nullptr && spec.shares_cache())
    apply_to_queries(step.run, *rope, step.q, step.args.batch.positions);
  if (spec.qk_norm_after_rope) norm_queries_and_keys();
  if (step.layer.v_norm) apply(step.run, *step.layer.v_norm, step.v, step.v);
}

// Writes keys and values to the cache, divided by its scales.
void write_kv(const AttentionStep& step) {
  step.multiply(step.k, 1.0F / step.scales.keys);
  step.multiply(step.v, 1.0F / step.scales.values);
  step.run(ops::KvWrite{
      .cache = step.cache, .k = step.k, .v = step.v, .slot_mapping = step.args.batch.slot_mapping});
}

// heads = softmax(q k^T) v, over the cache, or over the tokens of the step if scores depend on distances.
void attend_heads(const AttentionStep& step, const SparseMask& chosen) {
  const AttentionSpec& spec = step.spec;
  const TensorView result = head_view(step.heads, spec.num_heads);
  const SharedTables& tables = step.args.tables;
  if (spec.relative) {
    const auto* data = step.layer.relative.as<float>();
    const RelativeParams params{
        .scale = spec.params.scale,
        .buckets = {step.layer.relative_buckets.as<int32_t>(), spec.relative->buckets.size()},
        .num_buckets = spec.relative->num_buckets,
        .bias = tables.relative_bias.as<float>(),
        .keys = data,
        .queries = data == nullptr ? data : data + spec.relative->num_buckets * spec.q_size()};
    step.run(ops::RelativeAttention{.out = result,
                                    .q = step.q,
                                    .k = step.k,
                                    .v = step.v,
                                    .batch = step.args.batch.attention,
                                    .params = params});
    return;
  }
  AttentionParams params = spec.params;
  params.scale *= step.scales.keys;
  params.chosen = chosen;
  params.sinks = step.layer.sinks.as<float>();
  if (tables.alibi_slopes.size() > 0) params.alibi_slopes = tables.alibi_slopes.as<float>();
  step.run(ops::PagedAttention{
      .out = result, .q = step.q, .cache = step.cache, .batch = step.args.batch.attention, .params = params});
}

// out = o_proj(norm(gate(heads))) (+ residual).
void project_heads(const AttentionStep& step) {
  const AttentionSpec& spec = step.spec;
  step.multiply(step.heads, step.scales.values);
  if (spec.num_gates > 0)
    step.run(ops::Gate{.out = step.heads,
                       .x = step.heads,
                       .gate = column_slice(step.qkv, spec.q_size(), spec.keys_begin()),
                       .activation = spec.gate_activation});
  if (step.layer.sub_norm) apply(step.run, *step.layer.sub_norm, step.heads, step.heads);
  apply(step.run, step.layer.o_proj, step.args.out, step.heads, step.args.residual);
}

Buffer buffer_of(const std::vector<float>& values) {
  Buffer buffer(values.size() * sizeof(float));
  std::ranges::copy(values, buffer.as<float>());
  return buffer;
}

}  // namespace

KvShape kv_shape(const AttentionSpec& spec) {
  return {spec.num_kv_heads, spec.head_dim, spec.value_dim, spec.num_heads};
}

int64_t kv_bytes(const AttentionSpec& spec, DType dtype, int32_t block_size) {
  if (spec.shares_cache()) return 0;
  const int64_t own = kv_bytes_per_block(dtype, block_size, spec.num_kv_heads, spec.head_dim, spec.value_dim);
  return spec.indexer ? own + kv_part_bytes(dtype, block_size, 1, spec.indexer->dim) : own;
}

// An indexer reads the keys of all tokens.
MixerTraits mixer_traits(const AttentionSpec& spec) {
  if (spec.indexer) return {.masks = spec.indexer->masks()};
  const bool chunked = spec.params.chunk > 0;
  return {.window = chunked ? spec.params.chunk : spec.params.window, .chunked = chunked};
}

std::unique_ptr<Mixer> make_mixer(const AttentionSpec& spec) {
  return std::make_unique<Attention>(spec);
}

void Attention::count_scratch(ScratchLayout& layout) const {
  layout = AttentionScratch{spec, layout}.layout;
}

void Attention::forward(const OpRunner& run, const MixerArgs& args) const {
  AttentionScratch at{spec, args.layout()};
  SparseMask chosen;
  if (indexer) {
    at.indexer.chosen = args.chosen;
    const KvCacheView& kv = args.kv;
    const int64_t own =
        kv_bytes_per_block(kv.dtype, kv.block_size, kv.num_kv_heads, kv.head_dim, kv.value_dim);
    choose(run, *indexer, *args.tables.rope(spec.index_rope), args.x, args.x, args.batch,
           index_cache(kv, own, indexer->sizes), at.indexer);
    if (has_choice(indexer->sizes, args.batch)) chosen = at.indexer.chosen;
  }
  apply(run, qkv_proj, at.qkv, args.x);
  attend(run, args, at.qkv, at.heads, chosen);
}

void Attention::attend(const OpRunner& run, const MixerArgs& args, const TensorView& qkv,
                       const TensorView& heads, const SparseMask& chosen) const {
  const AttentionStep step(*this, run, args, qkv, heads);
  prepare_heads(step);
  if (!spec.relative && !spec.shares_cache()) write_kv(step);
  attend_heads(step, chosen);
  project_heads(step);
}

void Attention::visit_qk_norms(ParamVisitor& visitor) {
  if (spec.qk_norm == QkNorm::kNone) return;
  const auto visit_one = [&](ParamId id, int32_t heads, std::optional<Norm>& result) {
    const int64_t all = int64_t{heads} * spec.head_dim;
    result = make_norm(spec.qk_norm_spec, spec.qk_norm == QkNorm::kFullProjection ? all : spec.head_dim);
    ParamSpec param = with_bias(replicated(id, result->size), spec.qk_norm_spec.bias);
    if (spec.qk_norm == QkNorm::kPerHeadWeights) param.out = all;
    if (spec.qk_norm == QkNorm::kPerHeadWeights) param.pieces = heads;
    if (spec.qk_norm_weights) return visit_norm(visitor, param, *result);
    visit_unit_norm(visitor, spec.head_dim, spec.qk_norm_spec.eps, *result);
  };
  visit_one(attention::kQNorm, spec.num_heads, q_norm);
  if (!spec.shares_cache()) visit_one(attention::kKNorm, spec.num_kv_heads, k_norm);
}

void Attention::visit(const InputSpec& x, ParamVisitor& visitor) {
  const bool own_kv = !spec.shares_cache();
  const auto project = [&](ParamId id, int32_t heads, int64_t dim) {
    return with_bias(after_norm(column_parallel(id, heads * dim, x.size, dim), x.norm), spec.qkv_bias);
  };
  MatrixSpec in{.label = "qkv", .fused = {project(attention::kQProj, spec.num_heads, spec.head_dim)}};
  if (spec.num_gates > 0) {
    const int64_t per_head = spec.num_gates / spec.num_heads;
    in.fused.push_back(with_bias(project(attention::kOutputGate, spec.num_heads, per_head), false));
  }
  if (own_kv) {
    const ParamSpec k = project(attention::kKProj, spec.num_kv_heads, spec.head_dim);
    in.fused.push_back(k);
    in.fused.push_back(spec.k_eq_v ? k : project(attention::kVProj, spec.num_kv_heads, spec.value_dim));
  }
  visitor.matrix(in, qkv_proj);

  ParamSpec o = row_parallel(attention::kOProj, x.output_size(), spec.result_size(), spec.value_dim);
  o.bias = spec.o_bias;
  const bool plain_values = spec.num_kv_heads == spec.num_heads && !spec.k_eq_v && !spec.v_norm_eps;
  if (plain_values && !spec.sub_norm) o.input_proj = attention::kVProj;
  visit_matrix(visitor, "attention out", o, o_proj);

  visit_qk_norms(visitor);
  if (spec.sub_norm)
    visit_norm(visitor, attention::kSubNorm, *spec.sub_norm, spec.q_size(), sub_norm.emplace());
  if (spec.v_norm_eps && own_kv) visit_unit_norm(visitor, spec.head_dim, *spec.v_norm_eps, v_norm.emplace());
  if (spec.sinks) visit_vector(visitor, replicated(attention::kSinks, spec.num_heads), sinks);
  visitor.kv_scales(own_kv ? x.layer : spec.kv_sharing_layer, kv_scales);
  if (spec.relative) visit_values(visitor, spec.relative->buckets, relative_buckets);
  if (spec.relative && spec.relative->vectors) visit_relative(x.size, visitor);
  if (spec.indexer) quire::visit(*spec.indexer, spec.qk_norm_spec, x, x, visitor, indexer.emplace());
}

// The vectors of the relative positions go through the layer's projections of keys and queries (DeBERTa).
void Attention::visit_relative(int64_t hidden, ParamVisitor& visitor) {
  const RelativeSpec& own = *spec.relative;
  const int64_t buckets = own.num_buckets;
  const auto projection = [&](ParamId id) {
    return with_bias(replicated(id, hidden, hidden), spec.qkv_bias);
  };
  const ParamSpec k = projection(attention::kKProj);
  const ParamSpec q = projection(attention::kQProj);
  const ParamSpec rows = not_quantizable(replicated(attention::kRelativeEmbeddings, buckets, hidden));
  DerivedTable table{.name = "relative", .sources = {k, q, rows}, .count = 2 * buckets * hidden};
  ParamSpec scale = not_quantizable(replicated(attention::kRelativeNorm, hidden));
  if (own.norm) table.sources.push_back(scale = with_bias(scale, own.norm->bias));
  table.compute = [=, norm_spec = own.norm](ParamReader& reader, std::span<float> out) {
    std::vector<float> vectors = reader.read(rows);
    const TensorView x = make_view(vectors.data(), DType::kF32, Shape{buckets, hidden});
    if (norm_spec) {
      Norm norm = make_norm(*norm_spec, hidden);
      norm.weight = buffer_of(reader.read(scale));
      norm.bias = buffer_of(reader.read_bias(scale));
      apply(OpRunner{reader.ops(), reader.context()}, norm, x, x);
    }
    float* result = out.data();
    for (const ParamSpec& param : {k, q}) {
      std::vector<float> weights = reader.read(param);
      const std::array<TensorView, 1> parts = {make_view(weights.data(), DType::kF32, Shape{hidden, hidden})};
      PackedLinear packed = reader.ops().pack_linear(reader.context(), parts, {DType::kF32});
      packed.bias = buffer_of(reader.read_bias(param));
      reader.ops().run(
          reader.context(),
          ops::Linear{.out = make_view(result, DType::kF32, Shape{buckets, hidden}), .x = x, .w = packed});
      result += buckets * hidden;
    }
  };
  visitor.derived(table, relative);
}

void visit_relative_bias(const RelativeSpec& spec, int64_t num_heads, ParamVisitor& visitor, Buffer& bias) {
  // Stored [buckets, heads], read by head.
  const int64_t buckets = spec.num_buckets;
  visit_vector(visitor, replicated(attention::kRelativeEmbeddings, buckets, num_heads), bias,
               [=](const Buffer& stored) { return transposed(stored, buckets, num_heads); });
}

std::vector<float> alibi_slopes(int32_t num_heads, double max_bias, double scale) {
  const auto heads = static_cast<uint32_t>(num_heads);
  const uint32_t power = std::bit_floor(heads);
  std::vector<float> slopes;
  const auto add = [&](uint32_t i, uint32_t of) {
    slopes.push_back(static_cast<float>(scale * std::exp2(-max_bias * i / of)));
  };
  for (uint32_t i = 1; i <= power; ++i) add(i, power);
  for (uint32_t i = 1; slopes.size() < heads; i += 2) add(i, 2 * power);
  return slopes;
}

}  // namespace quire
