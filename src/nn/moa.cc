#include "nn/moa.h"

#include <algorithm>

#include "nn/attention_spec.h"

namespace quire {
namespace {

// A term is a pair of a row and one of its experts. Terms are sorted by expert, so that the weights of an
// expert are read once.
struct MoaScratch {
  TensorView logits;             // [rows, num_experts]
  TensorView weights;            // [rows, top_k]
  TensorView kv;                 // [rows, 2 kv_size]
  TensorView x;                  // [rows, hidden]: input of one expert
  TensorView terms;              // [rows * top_k, kv_size]: queries, later the results of attention
  TensorView q;                  // [rows, top_k * kv_size], ordered by KV head, as attention expects
  TensorView heads;              // [rows, top_k * kv_size], likewise
  TensorView out;                // [rows * top_k, hidden]: outputs of the terms
  std::span<int32_t> ids;        // [rows * top_k]
  std::span<int32_t> rows;       // [rows * top_k]: the row of each term
  std::span<int32_t> positions;  // [rows * top_k]: the term of each row and expert
  std::span<int32_t> offsets;    // [num_experts + 1]: the first term of each expert
  // The head of `terms` that each head of `q` is, and the head of `heads` that each head of `terms` is.
  std::span<int32_t> to_rows;   // [rows * num_heads]
  std::span<int32_t> to_terms;  // [rows * num_heads]
};

MoaScratch make_scratch(const Moa& moa, ScratchLayout& layout) {
  const MoaSpec& spec = moa.spec;
  const int64_t rows = layout.rows();
  const int64_t hidden = moa.experts.front().o_proj.out_features();
  const int64_t terms = rows * spec.router.num_experts_per_tok;
  MoaScratch out;
  out.logits = layout.matrix(spec.num_experts);
  out.weights = layout.matrix(spec.router.num_experts_per_tok);
  out.kv = layout.matrix(2 * spec.kv_size());
  out.x = layout.matrix(hidden);
  out.terms = layout.matrix(terms, spec.kv_size());
  out.q = layout.matrix(int64_t{spec.num_heads()} * spec.head_dim);
  out.heads = layout.matrix(int64_t{spec.num_heads()} * spec.head_dim);
  out.out = layout.matrix(terms, hidden);
  out.ids = layout.integers<int32_t>(terms);
  out.rows = layout.integers<int32_t>(terms);
  out.positions = layout.integers<int32_t>(terms);
  out.offsets = layout.integers<int32_t>(spec.num_experts + 1);
  out.to_rows = layout.integers<int32_t>(rows * spec.num_heads());
  out.to_terms = layout.integers<int32_t>(rows * spec.num_heads());
  return out;
}

// Query heads h * top_k to (h + 1) * top_k - 1 of a row belong to KV head h, one for each of the row's
// experts.
void order_heads(const MoaSpec& spec, const MoaScratch& at) {
  const int32_t top_k = spec.router.num_experts_per_tok;
  for (size_t i = 0; i < at.positions.size(); ++i) {
    const auto row = static_cast<int32_t>(i) / top_k;
    const auto expert = static_cast<int32_t>(i) % top_k;
    for (int32_t h = 0; h < spec.num_kv_heads; ++h) {
      const int32_t in_row = (row * spec.num_kv_heads + h) * top_k + expert;
      const int32_t in_terms = at.positions[i] * spec.num_kv_heads + h;
      at.to_rows[static_cast<size_t>(in_row)] = in_terms;
      at.to_terms[static_cast<size_t>(in_terms)] = in_row;
    }
  }
}

// All heads of a contiguous matrix, one per row.
TensorView as_heads(const TensorView& view, int64_t head_dim) {
  return make_view(view.data, DType::kF32, Shape{view.shape.numel() / head_dim, head_dim});
}

// Calls f(expert, first term, one past the last) for each expert that a row uses.
template <class F>
void for_experts(const Moa& moa, const MoaScratch& at, F&& f) {
  for (size_t e = 0; e < moa.experts.size(); ++e) {
    if (at.offsets[e] < at.offsets[e + 1]) f(moa.experts[e], at.offsets[e], at.offsets[e + 1]);
  }
}

}  // namespace

KvShape kv_shape(const MoaSpec& spec) {
  return {spec.num_kv_heads, spec.head_dim, spec.head_dim, spec.num_heads()};
}

int64_t kv_bytes(const MoaSpec& spec, DType dtype, int32_t block_size) {
  return kv_bytes_per_block(dtype, block_size, spec.num_kv_heads, spec.head_dim, spec.head_dim);
}

void count_scratch(const Moa& moa, ScratchLayout& layout) {
  make_scratch(moa, layout);
}

void apply(const OpRunner& run, const Moa& moa, const MixerArgs& args) {
  const MoaSpec& spec = moa.spec;
  ScratchLayout layout = args.layout();
  const MoaScratch at = make_scratch(moa, layout);
  apply(run, moa.router, at.logits, args.x);
  run(ops::RouteExperts{.ids = at.ids, .weights = at.weights, .logits = at.logits, .params = spec.router});
  run(ops::PermuteByExpert{.ids = at.ids,
                           .weights = at.weights,
                           .offsets = at.offsets,
                           .permuted_rows = at.rows,
                           .positions = at.positions});
  order_heads(spec, at);
  for_experts(moa, at, [&](const Moa::Expert& expert, int32_t begin, int32_t end) {
    const TensorView in = row_slice(at.x, 0, end - begin);
    const auto rows = at.rows.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    run(ops::GatherRows{.out = in, .x = args.x, .rows = rows});
    apply(run, expert.q_proj, row_slice(at.terms, begin, end), in);
  });
  const TensorView terms = as_heads(at.terms, spec.head_dim);
  run(ops::GatherRows{.out = as_heads(at.q, spec.head_dim), .x = terms, .rows = at.to_rows});

  apply(run, moa.kv_proj, at.kv, args.x);
  const TensorView q = head_view(at.q, spec.num_heads());
  const TensorView k = head_view(column_slice(at.kv, 0, spec.kv_size()), spec.num_kv_heads);
  const TensorView v = head_view(column_slice(at.kv, spec.kv_size(), 2 * spec.kv_size()), spec.num_kv_heads);
  if (args.rope != nullptr) apply(run, *args.rope, q, k, args.batch.positions);
  run(ops::KvWrite{.cache = args.kv, .k = k, .v = v, .slot_mapping = args.batch.slot_mapping});
  const AttentionParams params{.scale = spec.scale};
  run(ops::PagedAttention{.out = head_view(at.heads, spec.num_heads()),
                          .q = q,
                          .cache = args.kv,
                          .batch = args.batch.attention,
                          .params = params});

  run(ops::GatherRows{.out = terms, .x = as_heads(at.heads, spec.head_dim), .rows = at.to_terms});
  for_experts(moa, at, [&](const Moa::Expert& expert, int32_t begin, int32_t end) {
    apply(run, expert.o_proj, row_slice(at.out, begin, end), row_slice(at.terms, begin, end));
  });
  run(ops::CombineRows{
      .out = args.out, .y = at.out, .rows = at.positions, .weights = at.weights, .residual = args.residual});
  run(ops::Add{.x = args.out, .y = same_rows(moa.bias, args.out.rows(), args.out.row_size())});
}

void visit(const MoaSpec& spec, const InputSpec& x, ParamVisitor& visitor, Moa& moa) {
  moa.spec = spec;
  visit_matrix(visitor, "router", not_quantizable(replicated(moa::kRouter, spec.num_experts, x.size)),
               moa.router, Precision::kFloat32);
  const auto project = [&](ParamId id) { return column_parallel(id, spec.kv_size(), x.size, spec.head_dim); };
  visitor.matrix({.label = "qkv", .fused = {project(attention::kKProj), project(attention::kVProj)}},
                 moa.kv_proj);
  moa.experts.resize(static_cast<size_t>(spec.num_experts));
  visitor.for_each(Axis::kExperts, spec.num_experts, [&](int64_t i) {
    Moa::Expert& expert = moa.experts[static_cast<size_t>(i)];
    visit_matrix(visitor, "expert q", project(moa::kExpertQProj), expert.q_proj);
    const ParamSpec o = row_parallel(moa::kExpertOProj, x.output_size(), spec.kv_size(), spec.head_dim);
    visit_matrix(visitor, "expert o", o, expert.o_proj);
  });
  visit_vector(visitor, replicated(moa::kBias, x.output_size()), moa.bias);
}

}  // namespace quire
