// Mixture of experts: which experts a row goes to, and the sum of what they give.
#include <algorithm>
#include <array>
#include <cmath>

#include "ops/parallel.h"
#include "ops/reference.h"
#include "ops/softplus.h"

namespace quire::reference {
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
    const int64_t second = params.group_pairs ? best_of(of, size, [&](int64_t i) { return i != first; }) : -1;
    groups[static_cast<size_t>(g)] = second < 0 ? of[first] : of[first] + of[second];
  }
  for (int32_t i = 0; i < params.chosen_groups; ++i) {
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
  if (params.scores == RouterScores::kSoftmax) softmax(scores, num_experts);
  if (params.scores == RouterScores::kSigmoid) {
    for (int64_t e = 0; e < num_experts; ++e) scores[e] = 1.0F / (1.0F + std::exp(-scores[e]));
  }
  if (params.scores == RouterScores::kSqrtSoftplus) {
    for (int64_t e = 0; e < num_experts; ++e) scores[e] = std::sqrt(softplus(scores[e]));
  }
  for (int64_t e = 0; e < num_experts; ++e) {
    const auto at = static_cast<size_t>(e);
    choice.order[at] = scores[e] + (params.correction == nullptr ? 0.0F : params.correction[e]);
    choice.open[at] = true;
  }
  if (params.chosen_groups < params.num_groups) close_groups(choice, num_experts, params);
  for (int32_t j = 0; params.given && j < params.num_chosen; ++j) weights[j] = scores[ids[j]];
  for (int32_t j = 0; !params.given && j < params.num_chosen; ++j) {
    const int64_t best = best_of(choice.order.data(), num_experts,
                                 [&](int64_t e) { return choice.open[static_cast<size_t>(e)]; });
    ids[j] = static_cast<int32_t>(best);
    weights[j] = params.scores == RouterScores::kSparseMixer
                     ? sparse_mixer_weight(choice, num_experts, best, params.near)
                     : scores[best];
    choice.open[static_cast<size_t>(best)] = false;
  }
  if (params.scores == RouterScores::kChosenSoftmax) softmax(weights, params.num_chosen);
  if (params.scores == RouterScores::kChosenSigmoid) {
    for (int32_t j = 0; j < params.num_chosen; ++j) weights[j] = 1.0F / (1.0F + std::exp(-weights[j]));
  }
  if (params.normalize) {
    float sum = 0.0F;
    for (int32_t j = 0; j < params.num_chosen; ++j) sum += weights[j];
    // Scores that vanished all give weights of 0.
    sum = std::max(sum, 1e-20F);
    for (int32_t j = 0; j < params.num_chosen; ++j) weights[j] /= sum;
  }
  for (int32_t j = 0; j < params.num_chosen; ++j) weights[j] *= params.scale;
}

}  // namespace

void route_experts(const OpContext& ctx, std::span<int32_t> ids, const TensorView& weights,
                   const TensorView& logits, const RouterParams& params) {
  const int64_t num_experts = logits.row_size();
  const int64_t cost = num_experts * (16 + params.num_chosen);
  parallel_ranges(ctx, logits.rows(), row_grain(cost), [&](int64_t begin, int64_t end, int) {
    Choice choice;
    for (int64_t r = begin; r < end; ++r) {
      route_row(choice, ids.data() + r * params.num_chosen, weights.row<float>(r), logits.row<float>(r),
                num_experts, params);
    }
  });
}

void combine_rows(const OpContext& ctx, const TensorView& out, const TensorView& y,
                  std::span<const int32_t> places, const TensorView& weights, const TensorView& residual) {
  const int64_t d = out.row_size();
  const int64_t k = weights.row_size();
  parallel_ranges(ctx, out.rows(), row_grain(k * d), [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      float* result = out.row<float>(r);
      for (int64_t i = 0; i < d; ++i) {
        float sum = residual.data == nullptr ? 0.0F : residual.row<float>(r)[i];
        for (int64_t j = 0; j < k; ++j)
          sum += weights.row<float>(r)[j] * y.row<float>(places[static_cast<size_t>(r * k + j)])[i];
        result[i] = sum;
      }
    }
  });
}

}  // namespace quire::reference
