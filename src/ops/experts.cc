// Shape checks, costs and reference implementations of expert routing and of the weighted sum of experts.
#include "ops/experts.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "ops/parallel.h"
#include "ops/reference.h"
#include "ops/shape_check.h"
#include "ops/softplus.h"

namespace quire {
namespace {

// The index of the largest value among those that `takes` says; ties to the lower. -1: none.
template <typename Takes>
int64_t best_of(const float* values, int64_t n, Takes&& takes) {
  int64_t best = -1;
  for (int64_t i = 0; i < n; ++i) {
    if (takes(i) && (best < 0 || values[i] > values[best])) best = i;
  }
  return best;
}

void softmax(float* x, int64_t n) {
  const float highest = *std::max_element(x, x + n);
  float sum = 0.0F;
  for (int64_t i = 0; i < n; ++i) sum += x[i] = std::exp(x[i] - highest);
  for (int64_t i = 0; i < n; ++i) x[i] /= sum;
}

// One row's scores, what they are chosen by, and which experts may still be chosen.
struct Choice {
  std::array<float, kMaxExperts> scores;
  std::array<float, kMaxExperts> order;
  std::array<bool, kMaxExperts> open;
};

// Only the experts of the best groups stay open.
void close_groups(Choice& choice, int64_t num_experts, const RouterParams& params) {
  const int64_t size = num_experts / params.num_groups;
  std::array<float, kMaxExperts> groups;
  std::array<bool, kMaxExperts> chosen = {};
  for (int64_t g = 0; g < params.num_groups; ++g) {
    const float* of = choice.order.data() + g * size;
    const int64_t first = best_of(of, size, [](int64_t) { return true; });
    const int64_t second =
        params.group_score_top2 ? best_of(of, size, [&](int64_t i) { return i != first; }) : -1;
    groups[static_cast<size_t>(g)] = second < 0 ? of[first] : of[first] + of[second];
  }
  for (int32_t i = 0; i < params.topk_group; ++i) {
    const int64_t best =
        best_of(groups.data(), params.num_groups, [&](int64_t g) { return !chosen[static_cast<size_t>(g)]; });
    chosen[static_cast<size_t>(best)] = true;
  }
  for (int64_t e = 0; e < num_experts; ++e)
    choice.open[static_cast<size_t>(e)] = chosen[static_cast<size_t>(e / size)];
}

// The weight of the best open logit among those near it.
float sparse_mixer_weight(const Choice& choice, int64_t num_experts, int64_t best, float near) {
  const float highest = choice.scores[static_cast<size_t>(best)];
  float sum = 0.0F;
  for (int64_t e = 0; e < num_experts; ++e) {
    const auto at = static_cast<size_t>(e);
    if (!choice.open[at]) continue;
    const float score = choice.scores[at];
    if ((highest - score) / std::max(std::abs(score), highest) > near) continue;
    sum += std::exp(score - highest);
  }
  return 1.0F / sum;
}

void route_row(Choice& choice, int32_t* ids, float* weights, const float* logits, int64_t num_experts,
               const RouterParams& params) {
  float* scores = choice.scores.data();
  std::copy_n(logits, num_experts, scores);
  if (params.scoring_func == ScoringFunc::kSoftmax) softmax(scores, num_experts);
  if (params.scoring_func == ScoringFunc::kSigmoid) {
    for (int64_t e = 0; e < num_experts; ++e) scores[e] = 1.0F / (1.0F + std::exp(-scores[e]));
  }
  if (params.scoring_func == ScoringFunc::kSqrtSoftplus) {
    for (int64_t e = 0; e < num_experts; ++e) scores[e] = std::sqrt(softplus(scores[e]));
  }
  for (int64_t e = 0; e < num_experts; ++e) {
    const auto at = static_cast<size_t>(e);
    choice.order[at] =
        scores[e] + (params.e_score_correction_bias == nullptr ? 0.0F : params.e_score_correction_bias[e]);
    choice.open[at] = true;
  }
  if (params.topk_group < params.num_groups) close_groups(choice, num_experts, params);
  for (int32_t j = 0; params.hash_routing && j < params.num_experts_per_tok; ++j) weights[j] = scores[ids[j]];
  for (int32_t j = 0; !params.hash_routing && j < params.num_experts_per_tok; ++j) {
    const int64_t best = best_of(choice.order.data(), num_experts,
                                 [&](int64_t e) { return choice.open[static_cast<size_t>(e)]; });
    ids[j] = static_cast<int32_t>(best);
    weights[j] = params.scoring_func == ScoringFunc::kSparseMixer
                     ? sparse_mixer_weight(choice, num_experts, best, params.near)
                     : scores[best];
    choice.open[static_cast<size_t>(best)] = false;
  }
  if (params.scoring_func == ScoringFunc::kChosenSoftmax) softmax(weights, params.num_experts_per_tok);
  if (params.scoring_func == ScoringFunc::kChosenSigmoid) {
    for (int32_t j = 0; j < params.num_experts_per_tok; ++j)
      weights[j] = 1.0F / (1.0F + std::exp(-weights[j]));
  }
  if (params.norm_topk_prob) {
    float sum = 0.0F;
    for (int32_t j = 0; j < params.num_experts_per_tok; ++j) sum += weights[j];
    // Scores that vanished all give weights of 0.
    sum = std::max(sum, 1e-20F);
    for (int32_t j = 0; j < params.num_experts_per_tok; ++j) weights[j] /= sum;
  }
  for (int32_t j = 0; j < params.num_experts_per_tok; ++j) weights[j] *= params.routed_scaling_factor;
}

}  // namespace

namespace ops {

void check(const RouteExperts& op) {
  const RouterParams& params = op.params;
  const ShapeCheck shapes(op.kName, {{"weights", &op.weights}, {"logits", &op.logits}});
  shapes.require_f32({&op.weights, &op.logits});
  const auto rule = [&](bool ok, std::string_view text) {
    shapes.require(ok, text, "ids [", op.ids.size(), "], ", params.num_experts_per_tok, " chosen of ",
                   params.topk_group, " of ", params.num_groups, " groups");
  };
  const int64_t experts = op.logits.row_size();
  rule(experts > 0 && experts <= kMaxExperts && params.num_groups > 0 && params.topk_group > 0 &&
           params.topk_group <= params.num_groups && experts % params.num_groups == 0,
       "experts must form groups of equal size, at most 1024 experts in all");
  rule(params.num_experts_per_tok > 0 &&
           params.num_experts_per_tok <= experts / params.num_groups * params.topk_group,
       "the selected groups must hold the experts to select");
  rule(op.weights.rows() == op.logits.rows() && op.weights.row_size() == params.num_experts_per_tok &&
           static_cast<int64_t>(op.ids.size()) == op.logits.rows() * params.num_experts_per_tok,
       "ids and weights must have an element for each expert of each row");
  if (!params.hash_routing) return;
  const auto k = static_cast<size_t>(params.num_experts_per_tok);
  rule(op.tokens.size() * k == op.ids.size() && op.table.size() % k == 0,
       "hash routing needs a token for each row and num_experts_per_tok experts for each token");
  shapes.require_indices("token", op.tokens, static_cast<int64_t>(op.table.size() / k));
  shapes.require_indices("expert", op.table, experts);
}

OpCost cost(const RouteExperts& op) {
  return elementwise_cost("route experts", op.logits, 1, 8.0 + op.params.num_experts_per_tok);
}

void run_reference(const OpContext& ctx, const RouteExperts& op) {
  const int64_t num_experts = op.logits.row_size();
  const int64_t cost = num_experts * (16 + op.params.num_experts_per_tok);
  parallel_ranges(ctx, op.logits.rows(), row_grain(cost), [&](int64_t begin, int64_t end, int) {
    Choice choice;
    for (int64_t r = begin; r < end; ++r) {
      if (op.params.hash_routing) {
        const int64_t token = op.tokens[static_cast<size_t>(r)];
        std::copy_n(op.table.data() + token * op.params.num_experts_per_tok, op.params.num_experts_per_tok,
                    op.ids.data() + r * op.params.num_experts_per_tok);
      }
      route_row(choice, op.ids.data() + r * op.params.num_experts_per_tok, op.weights.row<float>(r),
                op.logits.row<float>(r), num_experts, op.params);
    }
  });
}

void check(const PermuteByExpert& op) {
  const ShapeCheck shapes(
      op.kName,
      {{"weights", &op.weights}, {"expert_scale", &op.expert_scale}, {"input_weights", &op.input_weights}});
  shapes.require_f32({&op.weights});
  const int64_t rows = op.weights.rows();
  const auto terms = static_cast<int64_t>(op.ids.size());
  const auto rule = [&](bool ok, std::string_view text) {
    shapes.require(ok, text, "ids [", op.ids.size(), "], offsets [", op.offsets.size(), "], permuted_rows [",
                   op.permuted_rows.size(), "], positions [", op.positions.size(), "]");
  };
  rule(rows == 0 || (terms % rows == 0 &&
                     (op.weights.row_size() == terms / rows || op.weights.row_size() == terms / rows + 1)),
       "weights must be [rows, top_k] or [rows, top_k + 1]");
  rule(op.offsets.size() >= 2, "offsets must have one more element than there are experts");
  rule(static_cast<int64_t>(op.permuted_rows.size()) == terms &&
           static_cast<int64_t>(op.positions.size()) == op.weights.shape.numel(),
       "permuted_rows must have ids' size, and positions that of weights");
  const auto experts = static_cast<int64_t>(op.offsets.size()) - 1;
  rule(op.expert_scale.data == nullptr || op.expert_scale.shape.numel() == experts,
       "expert_scale must be [num_experts]");
  rule(op.input_weights.data == nullptr || op.input_weights.rows() == terms,
       "input_weights must have a row for each of ids");
  shapes.require_indices("expert", op.ids, experts);
}

OpCost cost(const PermuteByExpert& op) {
  return elementwise_cost("permute by expert", op.weights, 5, 4);
}

// A few integers per row: not worth a second thread.
void run_reference(const OpContext& /*ctx*/, const PermuteByExpert& op) {
  const int64_t rows = op.weights.rows();
  const int64_t columns = op.weights.row_size();
  const int64_t top_k = rows == 0 ? 0 : static_cast<int64_t>(op.ids.size()) / rows;
  const auto expert = [&](int64_t r, int64_t j) {
    return static_cast<size_t>(op.ids[static_cast<size_t>(r * top_k + j)]);
  };
  std::fill(op.offsets.begin(), op.offsets.end(), 0);
  for (const int32_t id : op.ids) ++op.offsets[static_cast<size_t>(id) + 1];
  std::partial_sum(op.offsets.begin(), op.offsets.end(), op.offsets.begin());
  for (int64_t r = 0; r < rows; ++r) {
    float* weights = op.weights.row<float>(r);
    int32_t* positions = op.positions.data() + r * columns;
    for (int64_t j = 0; j < top_k; ++j) {
      const size_t e = expert(r, j);
      const int32_t position = op.offsets[e]++;
      op.permuted_rows[static_cast<size_t>(position)] = static_cast<int32_t>(r);
      positions[j] = position;
      if (op.expert_scale.data != nullptr) weights[j] *= op.expert_scale.as<float>()[e];
      if (op.input_weights.data == nullptr) continue;
      *op.input_weights.row<float>(position) = weights[j];
      weights[j] = 1.0F;
    }
    if (columns == top_k) continue;
    positions[top_k] = static_cast<int32_t>(rows * top_k + r);
    weights[top_k] = 1.0F;
  }
  // Each offset has moved to the end of its expert, where the next one starts.
  std::copy_backward(op.offsets.begin(), op.offsets.end() - 1, op.offsets.end());
  op.offsets[0] = 0;
}

void check(const CombineRows& op) {
  const ShapeCheck shapes(
      op.kName, {{"out", &op.out}, {"y", &op.y}, {"weights", &op.weights}, {"residual", &op.residual}});
  shapes.require_f32({&op.out, &op.y, &op.weights});
  shapes.require(op.out.row_size() == op.y.row_size() && op.weights.rows() == op.out.rows() &&
                     static_cast<int64_t>(op.rows.size()) == op.weights.rows() * op.weights.row_size(),
                 "out must have y's columns, and weights and rows a row for each row of out", "rows [",
                 op.rows.size(), "]");
  shapes.require_indices("row", op.rows, op.y.rows());
  shapes.require(op.residual.data == nullptr ||
                     (op.residual.rows() == op.out.rows() && op.residual.row_size() == op.out.row_size()),
                 "the residual must have out's shape");
}

OpCost cost(const CombineRows& op) {
  const auto k = static_cast<double>(op.weights.row_size());
  return elementwise_cost("combine experts", op.out, k + (op.residual.data != nullptr ? 2 : 1), 2 * k);
}

void run_reference(const OpContext& ctx, const CombineRows& op) {
  const int64_t d = op.out.row_size();
  const int64_t k = op.weights.row_size();
  parallel_ranges(ctx, op.out.rows(), row_grain(k * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* result = op.out.row<float>(r);
      for (int64_t i = 0; i < d; ++i) {
        float sum = op.residual.data == nullptr ? 0.0F : op.residual.row<float>(r)[i];
        for (int64_t j = 0; j < k; ++j)
          sum += op.weights.row<float>(r)[j] * op.y.row<float>(op.rows[static_cast<size_t>(r * k + j)])[i];
        result[i] = sum;
      }
    }
  });
}

void check(const OrderHeads& op) {
  const ShapeCheck shapes(op.kName, {{"rows", &op.rows}, {"terms", &op.terms}});
  shapes.require_f32({&op.rows, &op.terms});
  const auto rule = [&](bool ok, std::string_view text) {
    shapes.require(ok, text, "positions [", op.positions.size(), "]");
  };
  const auto count = static_cast<int64_t>(op.positions.size());
  rule(op.rows.shape.rank() == 3 && op.terms.shape.rank() == 3 && op.rows.shape[2] == op.terms.shape[2],
       "rows and terms must have heads of the same size");
  rule(op.terms.rows() == count && op.rows.shape.numel() == op.terms.shape.numel(),
       "there must be a position for each term, and as many heads in rows as in terms");
  rule(op.rows.rows() == 0 || count % op.rows.rows() == 0, "each row must have as many terms");
  shapes.require_indices("position", op.positions, op.terms.rows());
}

OpCost cost(const OrderHeads& op) {
  return elementwise_cost("order heads", op.rows, 2, 0);
}

void run_reference(const OpContext& ctx, const OrderHeads& op) {
  if (op.rows.rows() == 0) return;
  const int64_t dim = op.rows.shape[2];
  const int64_t kv_heads = op.terms.shape[1];
  const int64_t top_k = static_cast<int64_t>(op.positions.size()) / op.rows.rows();
  parallel_ranges(ctx, op.rows.rows(), row_grain(op.rows.row_size()), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      for (int64_t e = 0; e < top_k; ++e) {
        float* term = op.terms.row<float>(op.positions[static_cast<size_t>(r * top_k + e)]);
        for (int64_t h = 0; h < kv_heads; ++h) {
          float* in_row = op.rows.row<float>(r) + (h * top_k + e) * dim;
          float* in_term = term + h * dim;
          std::copy_n(op.to_terms ? in_row : in_term, dim, op.to_terms ? in_term : in_row);
        }
      }
    }
  });
}

}  // namespace ops
}  // namespace quire
