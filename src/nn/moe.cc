#include "nn/moe.h"

#include "nn/attention_params.h"
#include "nn/scratch.h"

namespace quire {
namespace {

// Applies the MLP of an expert, with scratch for as many rows as x has.
void apply_expert(const OpRunner& run, const Mlp& mlp, const TensorView& out, const TensorView& x,
                  const TensorView& up, const TensorView& act) {
  apply(run, mlp, out, x, {}, part(up, x.rows(), mlp.up_size()),
        act.data == nullptr ? act : part(act, x.rows(), mlp.intermediate));
}

// Applies the shared expert: sets the last rows of y, and their weights if it has a gate.
void apply_shared(const OpRunner& run, const Moe& moe, const TensorView& x, const MoeScratch& at,
                  const TensorView& up, const TensorView& act) {
  const int64_t n = x.rows();
  const int64_t chosen = moe.params.num_experts_per_tok;
  apply_expert(run, *moe.shared, row_slice(at.y, n * chosen, n * (chosen + 1)), x, up, act);
  if (!moe.shared_gate) return;
  const TensorView weight = column_slice(row_slice(at.weights, 0, n), chosen, chosen + 1);
  // The sigmoid of one logit is the router score of a single expert.
  const TensorView logits = row_slice(at.shared_logits, 0, n);
  apply(run, *moe.shared_gate, logits, x);
  run(ops::RouteExperts{.ids = at.ids.first(static_cast<size_t>(n)),
                        .weights = weight,
                        .logits = logits,
                        .params = {.scoring_func = ScoringFunc::kSigmoid}});
}

}  // namespace

MoeScratch make_scratch(const Moe& moe, int64_t hidden_size, ScratchLayout& layout) {
  const int64_t rows = layout.rows();
  const int64_t num_experts_per_tok = moe.params.num_experts_per_tok;
  const int64_t num_experts = moe.router.out_features();
  MoeScratch out;
  out.logits = layout.matrix(num_experts);
  out.weights = layout.matrix(moe.terms_per_row());
  if (moe.shared) out.shared_logits = layout.matrix(1);
  if (moe.apply_router_weight_on_input) out.input_weights = layout.matrix(rows * num_experts_per_tok, 1);
  out.x = layout.matrix(hidden_size);
  out.y = layout.matrix(rows * moe.terms_per_row(), hidden_size);
  out.ids = layout.integers<int32_t>(rows * num_experts_per_tok);
  out.rows = layout.integers<int32_t>(rows * num_experts_per_tok);
  out.positions = layout.integers<int32_t>(rows * moe.terms_per_row());
  out.offsets = layout.integers<int32_t>(num_experts + 1);
  return out;
}

void apply(const OpRunner& run, const Moe& moe, const TensorView& out, const TensorView& x,
           const TensorView& residual, const MoeScratch& at, const TensorView& up, const TensorView& act,
           std::span<const int32_t> tokens, const TensorView& router_x) {
  const int64_t n = x.rows();
  const int64_t chosen = moe.params.num_experts_per_tok;
  const TensorView logits = row_slice(at.logits, 0, n);
  const TensorView weights = row_slice(at.weights, 0, n);
  apply(run, moe.router, logits, router_x.data == nullptr ? x : router_x);
  const auto ids = at.ids.first(static_cast<size_t>(n * chosen));
  const auto positions = at.positions.first(static_cast<size_t>(n * moe.terms_per_row()));
  run(ops::RouteExperts{.ids = ids,
                        .weights = column_slice(weights, 0, chosen),
                        .logits = logits,
                        .params = moe.params,
                        .tokens = tokens,
                        .table = {moe.tid2eid.as<int32_t>(), moe.tid2eid.size() / sizeof(int32_t)}});
  run(ops::PermuteByExpert{
      .ids = ids,
      .weights = column_slice(weights, 0, moe.terms_per_row()),
      .expert_scale = vector_view(moe.expert_scale, static_cast<int64_t>(at.offsets.size()) - 1),
      .input_weights =
          moe.apply_router_weight_on_input ? row_slice(at.input_weights, 0, n * chosen) : TensorView{},
      .offsets = at.offsets,
      .permuted_rows = at.rows.first(ids.size()),
      .positions = positions});
  if (moe.shared) apply_shared(run, moe, x, at, up, act);
  for (size_t e = 0; e < moe.experts.size(); ++e) {
    const int64_t begin = at.offsets[e];
    const int64_t end = at.offsets[e + 1];
    if (begin == end) continue;
    const auto rows = std::span<const int32_t>(at.rows).subspan(static_cast<size_t>(begin),
                                                                static_cast<size_t>(end - begin));
    TensorView in = row_slice(at.x, 0, end - begin);
    if (moe.apply_router_weight_on_input) {
      run(ops::CombineRows{
          .out = in, .y = x, .rows = rows, .weights = row_slice(at.input_weights, begin, end)});
    } else if (rows.size() == 1) {
      in = row_slice(x, rows.front(), rows.front() + 1);
    } else {
      run(ops::GatherRows{.out = in, .x = x, .rows = rows});
    }
    apply_expert(run, moe.experts[e], row_slice(at.y, begin, end), in, up, act);
  }
  const int64_t computed = at.offsets[moe.experts.size()];
  if (const int64_t all = at.offsets.back(); computed < all) {
    run(ops::GatherRows{.out = row_slice(at.y, computed, all),
                        .x = x,
                        .rows = std::span<const int32_t>(at.rows).subspan(
                            static_cast<size_t>(computed), static_cast<size_t>(all - computed))});
  }
  run(ops::CombineRows{.out = out, .y = at.y, .rows = positions, .weights = weights, .residual = residual});
  if (moe.output_bias.size() > 0) run(ops::Add{.x = out, .y = same_rows(moe.output_bias, n, out.row_size())});
}

void visit(const MoeSpec& spec, const InputSpec& x, ParamVisitor& visitor, Moe& moe) {
  // The router is small, and rounding it would change which experts are selected.
  const ParamSpec router = not_quantizable(replicated(moe::kRouter, spec.routed(), x.size));
  visit_matrix(visitor, "router", with_bias(router, spec.router_bias), moe.router, Precision::kFloat32);
  moe.params = spec.router;
  moe.apply_router_weight_on_input = spec.apply_router_weight_on_input;
  if (spec.e_score_correction_bias && spec.hash_vocab_size == 0) {
    visit_vector(visitor, replicated(moe::kCorrectionBias, spec.routed()), moe.e_score_correction_bias);
    moe.params.e_score_correction_bias =
        moe.e_score_correction_bias.size() > 0 ? moe.e_score_correction_bias.as<float>() : nullptr;
  }
  if (spec.output_bias) visit_vector(visitor, replicated(moe::kOutputBias, x.size), moe.output_bias);
  if (spec.expert_scale)
    visit_vector(visitor, replicated(moe::kExpertScale, spec.num_experts), moe.expert_scale);
  if (spec.hash_vocab_size > 0) {
    visitor.integers(replicated(moe::kTokenExperts, spec.hash_vocab_size, spec.router.num_experts_per_tok),
                     spec.num_experts, moe.tid2eid);
    moe.params.hash_routing = true;
  }
  MlpSpec expert{.intermediate_size = spec.intermediate_size,
                 .gated = spec.gated,
                 .bias = spec.expert_bias,
                 .activation = spec.activation,
                 .limit = spec.expert_limit,
                 .limit_first = spec.limit_first};
  const MlpParams names{moe::kExpertGateProj, moe::kExpertUpProj, moe::kExpertDownProj,
                        "expert up",          "expert down",      false};
  moe.experts.resize(static_cast<size_t>(spec.num_experts));
  visitor.for_each(Axis::kExperts, spec.num_experts, [&](int64_t i) {
    Mlp& mlp = moe.experts[static_cast<size_t>(i)];
    visit(expert, names, {x.size}, visitor, mlp);
    fuse_gate(mlp);
  });
  if (spec.shared_intermediate_size == 0) return;
  expert.intermediate_size = spec.shared_intermediate_size;
  expert.bias = spec.shared_bias;
  expert.limit = spec.shared_limit;
  visit(expert,
        {moe::kSharedGateProj, moe::kSharedUpProj, moe::kSharedDownProj, "shared expert up",
         "shared expert down", false},
        {x.size}, visitor, moe.shared.emplace());
  fuse_gate(*moe.shared);
  if (spec.shared_gate) {
    visit_matrix(visitor, "shared expert gate",
                 not_quantizable(replicated(moe::kSharedExpertGate, 1, x.size)), moe.shared_gate.emplace(),
                 Precision::kFloat32);
  }
}

}  // namespace quire
