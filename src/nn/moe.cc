#include "nn/moe.h"

namespace quire {
namespace {

// Applies the MLP of an expert, with scratch for as many rows as x has.
void apply_expert(const OpRunner& run, const Mlp& mlp, const TensorView& out, const TensorView& x,
                  const TensorView& up, const TensorView& act) {
  apply(run, mlp, out, x, {}, part(up, x.rows(), mlp.spec.up_size()),
        act.data == nullptr ? act : part(act, x.rows(), mlp.spec.intermediate_size));
}

// Applies the shared expert: sets the last rows of y, and their weights if it has a gate.
void apply_shared(const OpRunner& run, const Moe& moe, const TensorView& x, const MoeScratch& at,
                  const TensorView& up, const TensorView& act) {
  apply_expert(run, *moe.shared, row_slice(at.y, at.rows_of_experts, at.terms), x, up, act);
  if (!moe.shared_gate) return;
  // The sigmoid of one logit is the router score of a single expert.
  apply(run, *moe.shared_gate, at.shared_logits, x);
  const int64_t top_k = moe.spec.router.num_experts_per_tok;
  run(ops::RouteExperts{.ids = at.ids.first(static_cast<size_t>(x.rows())),
                        .weights = column_slice(at.weights, top_k, top_k + 1),
                        .logits = at.shared_logits,
                        .params = {.scoring_func = ScoringFunc::kSigmoid}});
}

}  // namespace

void apply(const OpRunner& run, const Moe& moe, const TensorView& out, const TensorView& x,
           const TensorView& residual, const MoeScratch& at, const TensorView& up, const TensorView& act,
           std::span<const int32_t> tokens, const TensorView& router_x) {
  const MoeSpec& spec = moe.spec;
  apply(run, moe.router, at.logits, router_x.data == nullptr ? x : router_x);
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
  run(ops::CopyToHost{.to = at.host_offsets, .from = at.offsets});
  run(ops::CopyToHost{.to = at.host_rows, .from = at.rows});
  if (moe.shared) apply_shared(run, moe, x, at, up, act);
  const std::span<const int32_t> offsets = at.host_offsets;
  const auto rows_between = [&](int64_t begin, int64_t end) {
    return std::span<const int32_t>(at.rows).subspan(static_cast<size_t>(begin),
                                                     static_cast<size_t>(end - begin));
  };
  for (size_t e = 0; e < moe.experts.size(); ++e) {
    const int64_t begin = offsets[e];
    const int64_t end = offsets[e + 1];
    if (begin == end) continue;
    const auto rows = rows_between(begin, end);
    TensorView in = row_slice(at.x, 0, end - begin);
    if (spec.apply_router_weight_on_input) {
      run(ops::CombineRows{
          .out = in, .y = x, .rows = rows, .weights = row_slice(at.input_weights, begin, end)});
    } else if (rows.size() == 1) {
      const int64_t row = at.host_rows[static_cast<size_t>(begin)];
      in = row_slice(x, row, row + 1);
    } else {
      run(ops::GatherRows{.out = in, .x = x, .rows = rows});
    }
    apply_expert(run, moe.experts[e], row_slice(at.y, begin, end), in, up, act);
  }
  const int64_t computed = offsets[moe.experts.size()];
  if (const int64_t all = offsets.back(); computed < all)
    run(ops::GatherRows{.out = row_slice(at.y, computed, all), .x = x, .rows = rows_between(computed, all)});
  run(ops::CombineRows{
      .out = out, .y = at.y, .rows = at.positions, .weights = at.weights, .residual = residual});
  if (moe.output_bias.size() > 0)
    run(ops::Add{.x = out, .y = same_rows(moe.output_bias, x.rows(), out.row_size())});
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
