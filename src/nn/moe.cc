#include "nn/moe.h"

#include <algorithm>

namespace quire {
namespace {

// Applies the shared expert: sets the last rows of y, and their weights if it has a gate.
void apply_shared(const OpRunner& run, const Moe& moe, const TensorView& x, const MoeScratch& at,
                  const TensorView& up, const TensorView& act) {
  const MlpSpec& mlp = moe.shared->spec;
  apply(run, *moe.shared, row_slice(at.y, at.rows_of_experts, at.terms), x, {},
        part(up, x.rows(), mlp.up_size()), part(act, x.rows(), mlp.gated ? mlp.intermediate_size : 0));
  if (!moe.shared_gate) return;
  // The sigmoid of one logit is the router score of a single expert.
  apply(run, *moe.shared_gate, at.shared_logits, x);
  const int64_t top_k = moe.spec.router.num_experts_per_tok;
  run(ops::RouteExperts{.ids = at.ids.first(static_cast<size_t>(x.rows())),
                        .weights = column_slice(at.weights, top_k, top_k + 1),
                        .logits = at.shared_logits,
                        .params = {.scoring_func = ScoringFunc::kSigmoid}});
}

// Selects the experts of each row and sorts the terms by expert.
void route(const OpRunner& run, const Moe& moe, const TensorView& x, const MoeScratch& at,
           std::span<const int32_t> tokens) {
  const MoeSpec& spec = moe.spec;
  apply(run, moe.router, at.logits, x);
  RouterParams params = spec.router;
  params.e_score_correction_bias = moe.e_score_correction_bias.as<float>();
  params.hash_routing = spec.hash_vocab_size > 0;
  run(ops::RouteExperts{.ids = at.ids,
                        .weights = column_slice(at.weights, 0, spec.router.num_experts_per_tok),
                        .logits = at.logits,
                        .params = params,
                        .tokens = tokens,
                        .table = {moe.tid2eid.as<int32_t>(), moe.tid2eid.size() / sizeof(int32_t)}});
  run(ops::PermuteByExpert{.ids = at.ids,
                           .weights = at.weights,
                           .expert_scale = vector_view(moe.expert_scale, spec.routed()),
                           .input_weights = at.input_weights,
                           .offsets = at.offsets,
                           .permuted_rows = at.rows,
                           .positions = at.positions});
}

// Sets the rows of y that belong to routed experts.
void apply_experts(const OpRunner& run, const Moe& moe, const TensorView& x, const MoeScratch& at) {
  const MoeSpec& spec = moe.spec;
  const Mlp& any = moe.experts.front();  // all have the same activation
  GroupedTerms terms{.offsets = at.offsets, .rows = at.rows, .num_rows = x.rows(), .by_row = true};
  TensorView in = x;
  if (spec.apply_router_weight_on_input) {
    run(ops::CombineRows{.out = at.x, .y = x, .rows = at.rows, .weights = at.input_weights});
    in = at.x;
    terms.by_row = false;
  }
  const bool fused = any.up.weight.gate.has_value();
  const TensorView up = spec.gated ? row_slice(at.gate_up, 0, at.rows_of_experts) : at.inner;
  if (fused && moe.up.apply_changed_grouped(run, up, in, terms)) {
    activate_gated(run, any, up, at.inner);
  } else {
    moe.up.apply_grouped(run, fused ? at.inner : up, in, terms);
  }
  activate(run, any, up, at.inner);
  // Zero-computation experts return their input; the rows of the others are overwritten.
  const TensorView y = row_slice(at.y, 0, at.rows_of_experts);
  if (spec.zero_expert_num > 0) run(ops::GatherRows{.out = y, .x = x, .rows = at.rows});
  terms.by_row = false;
  moe.down.apply_grouped(run, y, at.inner, terms);
}

}  // namespace

void apply(const OpRunner& run, const Moe& moe, const TensorView& out, const TensorView& x,
           const TensorView& residual, const MoeScratch& at, const TensorView& up, const TensorView& act,
           std::span<const int32_t> tokens, const TensorView& router_x) {
  route(run, moe, router_x.data == nullptr ? x : router_x, at, tokens);
  apply_experts(run, moe, x, at);
  if (moe.shared) apply_shared(run, moe, x, at, up, act);
  run(ops::CombineRows{
      .out = out, .y = at.y, .rows = at.positions, .weights = at.weights, .residual = residual});
  if (moe.output_bias.size() > 0)
    run(ops::Add{.x = out, .y = same_rows(moe.output_bias, x.rows(), out.row_size())});
}

void group_experts(Moe& moe) {
  const bool all_fused =
      std::ranges::all_of(moe.experts, [](const Mlp& mlp) { return mlp.up.weight.gate.has_value(); });
  for (Mlp& mlp : moe.experts) {
    if (!all_fused) mlp.up.weight.gate.reset();
    moe.up.add(mlp.up);
    moe.down.add(mlp.down);
  }
}

void visit(const MoeSpec& spec, const InputSpec& x, ParamVisitor& visitor, Moe& moe) {
  moe.spec = spec;
  // The router is small, and rounding it would change which experts are selected.
  const ParamSpec router = replicated(moe::kRouter, spec.routed(), x.size);
  visit_matrix(visitor, "router", with_bias(router, spec.router_bias), moe.router, Precision::kFloat32);
  if (spec.e_score_correction_bias && spec.hash_vocab_size == 0)
    visit_vector(visitor, replicated(moe::kCorrectionBias, spec.routed()), moe.e_score_correction_bias);
  if (spec.output_bias) visit_vector(visitor, replicated(moe::kOutputBias, x.size), moe.output_bias);
  if (spec.expert_scale)
    visit_vector(visitor, replicated(moe::kExpertScale, spec.num_experts), moe.expert_scale);
  if (spec.hash_vocab_size > 0) {
    visitor.integers(replicated(moe::kTokenExperts, spec.hash_vocab_size, spec.router.num_experts_per_tok),
                     spec.num_experts, moe.tid2eid);
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
    visit(expert, names, {x.size}, visitor, moe.experts[static_cast<size_t>(i)]);
  });
  group_experts(moe);
  if (spec.shared_intermediate_size == 0) return;
  expert.intermediate_size = spec.shared_intermediate_size;
  expert.bias = spec.shared_bias;
  expert.limit = spec.shared_limit;
  visit(expert,
        {moe::kSharedGateProj, moe::kSharedUpProj, moe::kSharedDownProj, "shared expert up",
         "shared expert down", false},
        {x.size}, visitor, moe.shared.emplace());
  if (spec.shared_gate) {
    visit_matrix(visitor, "shared expert gate", replicated(moe::kSharedExpertGate, 1, x.size),
                 moe.shared_gate.emplace(), Precision::kFloat32);
  }
}

}  // namespace quire
