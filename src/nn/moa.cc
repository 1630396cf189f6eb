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
  LinearGroup q_projs;  // query projections of all experts
  LinearGroup o_projs;
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
  TensorView terms = layout.matrix(num_terms, spec.kv_size());  // queries, later the results of attention
  TensorView q = layout.matrix(top_k * spec.kv_size());         // ordered by KV head, as attention expects
  TensorView heads = layout.matrix(top_k * spec.kv_size());     // likewise
  TensorView out = layout.matrix(num_terms, hidden);            // outputs of the terms
  std::span<int32_t> ids = layout.integers<int32_t>(num_terms);
  std::span<int32_t> rows = layout.integers<int32_t>(num_terms);       // the row of each term
  std::span<int32_t> positions = layout.integers<int32_t>(num_terms);  // the term of each row and expert
  std::span<int32_t> offsets = layout.integers<int32_t>(spec.num_experts + 1);  // first term of each expert
};

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
  GroupedTerms by_expert{.offsets = at.offsets, .rows = at.rows, .num_rows = args.x.rows(), .by_row = true};
  q_projs.apply_grouped(run, at.terms, args.x, by_expert);
  const TensorView q = head_view(at.q, spec.num_heads());
  const TensorView heads = head_view(at.heads, spec.num_heads());
  const TensorView terms = head_view(at.terms, spec.num_kv_heads);
  run(ops::OrderHeads{.rows = q, .terms = terms, .positions = at.positions});

  apply(run, kv_proj, at.kv, args.x);
  const TensorView k = head_view(column_slice(at.kv, 0, spec.kv_size()), spec.num_kv_heads);
  const TensorView v = head_view(column_slice(at.kv, spec.kv_size(), 2 * spec.kv_size()), spec.num_kv_heads);
  if (args.rope != nullptr) apply(run, *args.rope, q, k, args.batch.positions);
  run(ops::KvWrite{.cache = args.kv, .k = k, .v = v, .slot_mapping = args.batch.slot_mapping});
  const AttentionParams params{.scale = spec.scale};
  run(ops::PagedAttention{
      .out = heads, .q = q, .cache = args.kv, .batch = args.batch.attention, .params = params});

  run(ops::OrderHeads{.rows = heads, .terms = terms, .positions = at.positions, .to_terms = true});
  by_expert.by_row = false;
  o_projs.apply_grouped(run, at.out, at.terms, by_expert);
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
  for (const Expert& expert : experts) {
    q_projs.add(expert.q_proj);
    o_projs.add(expert.o_proj);
  }
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
