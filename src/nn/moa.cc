// Mixture of attention heads (arXiv 2210.05144): a router selects a few experts for each token. Each expert
// has a query projection and an output projection. Keys and values are the same for all experts.
#include "nn/moa_spec.h"

#include <vector>

#include "nn/mixer.h"

namespace quire {
namespace {

struct Expert {
  Linear q_proj;  // [kv_size, hidden]
  Linear o_proj;  // [hidden, kv_size]
};

// out = sum over a row's experts e of weight * o_proj_e(attend(q_proj_e(x), k, v)) + bias (+ residual).
struct Moa final : Mixer {
  MoaSpec spec;
  Linear router;   // [num_experts, hidden]
  Linear kv_proj;  // [2 kv_size, hidden]: keys, values
  std::vector<Expert> experts;
  Buffer bias;  // float32 [hidden]: added to the output

  explicit Moa(const MoaSpec& settings) : spec(settings) {}
  void visit(const InputSpec& x, ParamVisitor& visitor) override;
  void forward(const OpRunner& run, const MixerArgs& args) const override;
  void count_scratch(ScratchLayout& layout) const override;
};

// A term is a pair of a row and one of its experts. Terms are sorted by expert, so that the weights of an
// expert are read once.
struct MoaScratch {
  const Moa& moa;
  ScratchLayout layout;
  const MoaSpec& spec = moa.spec;
  int64_t top_k = spec.router.num_experts_per_tok;
  int64_t num_terms = layout.rows() * top_k;
  int64_t hidden = moa.experts.front().o_proj.out_features();

  TensorView logits = layout.matrix(spec.num_experts);
  TensorView weights = layout.matrix(top_k);
  TensorView kv = layout.matrix(2 * spec.kv_size());
  TensorView x = layout.matrix(hidden);                         // input of one expert
  TensorView terms = layout.matrix(num_terms, spec.kv_size());  // queries, later the results of attention
  TensorView q = layout.matrix(top_k * spec.kv_size());         // ordered by KV head, as attention expects
  TensorView heads = layout.matrix(top_k * spec.kv_size());     // likewise
  TensorView out = layout.matrix(num_terms, hidden);            // outputs of the terms
  std::span<int32_t> ids = layout.integers<int32_t>(num_terms);
  std::span<int32_t> rows = layout.integers<int32_t>(num_terms);       // the row of each term
  std::span<int32_t> positions = layout.integers<int32_t>(num_terms);  // the term of each row and expert
  std::span<int32_t> offsets = layout.integers<int32_t>(spec.num_experts + 1);  // first term of each expert
  // Copies for the host.
  std::span<int32_t> host_offsets = layout.host_integers<int32_t>(spec.num_experts + 1);
  std::span<int32_t> host_positions = layout.host_integers<int32_t>(num_terms);
  // The head of `terms` that each head of `q` is, and the head of `heads` that each head of `terms` is.
  std::span<int32_t> to_rows = layout.host_integers<int32_t>(layout.rows() * spec.num_heads());
  std::span<int32_t> to_terms = layout.host_integers<int32_t>(layout.rows() * spec.num_heads());
};

// Query heads h * top_k to (h + 1) * top_k - 1 of a row belong to KV head h, one for each of the row's
// experts.
void order_heads(const MoaScratch& at) {
  const MoaSpec& spec = at.spec;
  const int32_t top_k = spec.router.num_experts_per_tok;
  for (size_t i = 0; i < at.host_positions.size(); ++i) {
    const auto row = static_cast<int32_t>(i) / top_k;
    const auto expert = static_cast<int32_t>(i) % top_k;
    for (int32_t h = 0; h < spec.num_kv_heads; ++h) {
      const int32_t in_row = (row * spec.num_kv_heads + h) * top_k + expert;
      const int32_t in_terms = at.host_positions[i] * spec.num_kv_heads + h;
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
void for_experts(const MoaScratch& at, F&& f) {
  for (size_t e = 0; e < at.moa.experts.size(); ++e) {
    const int32_t begin = at.host_offsets[e];
    const int32_t end = at.host_offsets[e + 1];
    if (begin < end) f(at.moa.experts[e], begin, end);
  }
}

void Moa::count_scratch(ScratchLayout& layout) const {
  layout = MoaScratch{*this, layout}.layout;
}

void Moa::forward(const OpRunner& run, const MixerArgs& args) const {
  const MoaScratch at{*this, args.layout()};
  apply(run, router, at.logits, args.x);
  run(ops::RouteExperts{.ids = at.ids, .weights = at.weights, .logits = at.logits, .params = spec.router});
  run(ops::PermuteByExpert{.ids = at.ids,
                           .weights = at.weights,
                           .offsets = at.offsets,
                           .permuted_rows = at.rows,
                           .positions = at.positions});
  run(ops::CopyToHost{.to = at.host_offsets, .from = at.offsets});
  run(ops::CopyToHost{.to = at.host_positions, .from = at.positions});
  order_heads(at);
  for_experts(at, [&](const Expert& expert, int32_t begin, int32_t end) {
    const TensorView in = row_slice(at.x, 0, end - begin);
    const auto rows = at.rows.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    run(ops::GatherRows{.out = in, .x = args.x, .rows = rows});
    apply(run, expert.q_proj, row_slice(at.terms, begin, end), in);
  });
  const TensorView terms = as_heads(at.terms, spec.head_dim);
  run(ops::GatherRows{.out = as_heads(at.q, spec.head_dim), .x = terms, .rows = at.to_rows});

  apply(run, kv_proj, at.kv, args.x);
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
  for_experts(at, [&](const Expert& expert, int32_t begin, int32_t end) {
    apply(run, expert.o_proj, row_slice(at.out, begin, end), row_slice(at.terms, begin, end));
  });
  run(ops::CombineRows{
      .out = args.out, .y = at.out, .rows = at.positions, .weights = at.weights, .residual = args.residual});
  run(ops::Add{.x = args.out, .y = same_rows(bias, args.out.rows(), args.out.row_size())});
}

void Moa::visit(const InputSpec& x, ParamVisitor& visitor) {
  visit_matrix(visitor, "router", replicated(moa::kRouter, spec.num_experts, x.size), router,
               Precision::kFloat32);
  const auto project = [&](ParamId id) { return column_parallel(id, spec.kv_size(), x.size, spec.head_dim); };
  visitor.matrix({.label = "qkv", .fused = {project(moa::kKProj), project(moa::kVProj)}}, kv_proj);
  experts.resize(static_cast<size_t>(spec.num_experts));
  visitor.for_each(Axis::kExperts, spec.num_experts, [&](int64_t i) {
    Expert& expert = experts[static_cast<size_t>(i)];
    visit_matrix(visitor, "expert q", project(moa::kExpertQProj), expert.q_proj);
    const ParamSpec o = row_parallel(moa::kExpertOProj, x.output_size(), spec.kv_size(), spec.head_dim);
    visit_matrix(visitor, "expert o", o, expert.o_proj);
  });
  visit_vector(visitor, replicated(moa::kBias, x.output_size()), bias);
}

}  // namespace

KvShape kv_shape(const MoaSpec& spec) {
  return {spec.num_kv_heads, spec.head_dim, spec.head_dim, spec.num_heads()};
}

int64_t kv_bytes(const MoaSpec& spec, DType dtype, int32_t block_size) {
  return kv_bytes_per_block(dtype, block_size, spec.num_kv_heads, spec.head_dim, spec.head_dim);
}

std::unique_ptr<Mixer> make_mixer(const MoaSpec& spec) {
  return std::make_unique<Moa>(spec);
}

}  // namespace quire
