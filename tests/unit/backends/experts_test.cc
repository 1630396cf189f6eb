// Routing of tokens to experts and combination of their outputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "op_testing.h"
#include "ops/reference.h"

namespace quire {
namespace {

using test::expect_near;
using test::random_tensor;
using test::same_row;
using test::same_rows;
using test::TestContext;
using test::TestTensor;
using test::usable_isas;

struct Routed {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Routed route(const OpTable& table, const std::vector<float>& logits, const RouterParams& params) {
  std::vector<float> copy = logits;
  Routed out{std::vector<int32_t>(static_cast<size_t>(params.num_experts_per_tok)),
             std::vector<float>(static_cast<size_t>(params.num_experts_per_tok))};
  table.run(TestContext(table),
            ops::RouteExperts{
                .ids = out.ids,
                .weights = make_view(out.weights.data(), DType::kF32, {1, params.num_experts_per_tok}),
                .logits = make_view(copy.data(), DType::kF32, {1, static_cast<int64_t>(copy.size())}),
                .params = params});
  return out;
}

Routed route(const std::vector<float>& logits, const RouterParams& params) {
  return route(reference_ops(), logits, params);
}

void expect_weights(const Routed& routed, const std::vector<double>& want) {
  ASSERT_EQ(routed.weights.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(routed.weights[i], want[i], 1e-6) << i;
}

TEST(RouteExperts, SoftmaxOverAllOrdersExpertsByScore) {
  const std::vector<float> logits = {0.5F, 2.0F, -1.0F, 1.0F};
  double sum = 0;
  for (const float l : logits) sum += std::exp(l);
  const Routed routed = route(logits, {.num_experts_per_tok = 2});
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{1, 3}));
  expect_weights(routed, {std::exp(2.0) / sum, std::exp(1.0) / sum});
  const Routed scaled =
      route(logits, {.num_experts_per_tok = 2, .norm_topk_prob = true, .routed_scaling_factor = 3.0F});
  const double both = std::exp(2.0) + std::exp(1.0);
  expect_weights(scaled, {3 * std::exp(2.0) / both, 3 * std::exp(1.0) / both});
  const Routed chosen =
      route(logits, {.scoring_func = ScoringFunc::kChosenSoftmax, .num_experts_per_tok = 2});
  EXPECT_EQ(chosen.ids, routed.ids);
  expect_weights(chosen, {std::exp(2.0) / both, std::exp(1.0) / both});
}

TEST(RouteExperts, TiesGoToTheLowerExpert) {
  for (const ScoringFunc scores :
       {ScoringFunc::kSoftmax, ScoringFunc::kSigmoid, ScoringFunc::kChosenSoftmax}) {
    const Routed routed =
        route({1.0F, 3.0F, 1.0F, 3.0F, 1.0F}, {.scoring_func = scores, .num_experts_per_tok = 4});
    EXPECT_EQ(routed.ids, (std::vector<int32_t>{1, 3, 0, 2}));
  }
}

TEST(RouteExperts, ScoreCorrectionBiasAffectsSelectionOnly) {
  const std::vector<float> e_score_correction_bias = {0.0F, 0.0F, 0.9F};
  const Routed routed =
      route({2.0F, 1.0F, -1.0F}, {.scoring_func = ScoringFunc::kSigmoid,
                                  .num_experts_per_tok = 2,
                                  .e_score_correction_bias = e_score_correction_bias.data()});
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{2, 0}));
  expect_weights(routed, {1 / (1 + std::exp(1.0)), 1 / (1 + std::exp(-2.0))});
}

TEST(RouteExperts, ScoresAreSquareRootsOfSoftplus) {
  const std::vector<float> logits = {0.5F, 2.0F, -1.0F, 30.0F};
  const auto score = [](double x) { return std::sqrt(std::log1p(std::exp(x))); };
  const Routed routed = route(logits, {.scoring_func = ScoringFunc::kSqrtSoftplus, .num_experts_per_tok = 3});
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{3, 1, 0}));
  expect_weights(routed, {score(30.0), score(2.0), score(0.5)});
}

TEST(RouteExperts, HashRoutingUsesTheExpertsOfTheToken) {
  const std::vector<int32_t> table = {0, 1, 3, 1, 2, 0};  // for three tokens
  const std::vector<int32_t> tokens = {2};
  for (const CpuIsa& isa : usable_isas()) {
    std::vector<float> logits = {0.5F, 2.0F, -1.0F, 1.0F};
    std::vector<int32_t> ids = {-1, -1};
    std::vector<float> weights(2);
    isa.table->run(TestContext(*isa.table),
                   ops::RouteExperts{.ids = ids,
                                     .weights = make_view(weights.data(), DType::kF32, {1, 2}),
                                     .logits = make_view(logits.data(), DType::kF32, {1, 4}),
                                     .params = {.scoring_func = ScoringFunc::kSigmoid,
                                                .num_experts_per_tok = 2,
                                                .norm_topk_prob = true,
                                                .routed_scaling_factor = 3.0F,
                                                .hash_routing = true},
                                     .tokens = tokens,
                                     .table = table});
    EXPECT_EQ(ids, (std::vector<int32_t>{2, 0})) << isa.name;
    const double first = 1 / (1 + std::exp(1.0));
    const double second = 1 / (1 + std::exp(-0.5));
    expect_weights({ids, weights}, {3 * first / (first + second), 3 * second / (first + second)});
  }
}

struct Permuted {
  std::vector<float> weights;
  std::vector<float> input_weights;
  std::vector<int32_t> offsets;
  std::vector<int32_t> rows;
  std::vector<int32_t> positions;
};

// Three rows with two experts each, of four: {2, 0}, {2, 3}, {0, 2}.
Permuted permute(const OpTable& table, bool shared, bool weight_inputs, std::vector<float> scale) {
  const std::vector<int32_t> ids = {2, 0, 2, 3, 0, 2};
  const int64_t columns = shared ? 3 : 2;
  Permuted out{std::vector<float>(static_cast<size_t>(3 * columns)), std::vector<float>(6),
               std::vector<int32_t>(5), std::vector<int32_t>(6),
               std::vector<int32_t>(static_cast<size_t>(3 * columns))};
  const TensorView weights = make_view(out.weights.data(), DType::kF32, {3, columns});
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t j = 0; j < 2; ++j) weights.row<float>(r)[j] = static_cast<float>(1 + 2 * r + j);
  }
  ops::PermuteByExpert op = {.ids = ids,
                             .weights = weights,
                             .offsets = out.offsets,
                             .permuted_rows = out.rows,
                             .positions = out.positions};
  if (!scale.empty()) op.expert_scale = make_view(scale.data(), DType::kF32, {4});
  if (weight_inputs) op.input_weights = make_view(out.input_weights.data(), DType::kF32, {6, 1});
  checked(table).run(TestContext(table), op);
  return out;
}

TEST(PermuteByExpert, GroupsRowsByExpertInAscendingOrder) {
  for (const CpuIsa& isa : usable_isas()) {
    const Permuted out = permute(*isa.table, false, false, {});
    EXPECT_EQ(out.offsets, (std::vector<int32_t>{0, 2, 2, 5, 6})) << isa.name;
    EXPECT_EQ(out.rows, (std::vector<int32_t>{0, 2, 0, 1, 2, 1}));
    EXPECT_EQ(out.positions, (std::vector<int32_t>{2, 0, 3, 5, 1, 4}));
    EXPECT_EQ(out.weights, (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
}

TEST(PermuteByExpert, PutsTheSharedExpertAfterAllOthersWithWeightOne) {
  const Permuted out = permute(reference_ops(), true, false, {});
  EXPECT_EQ(out.positions, (std::vector<int32_t>{2, 0, 6, 3, 5, 7, 1, 4, 8}));
  EXPECT_EQ(out.weights, (std::vector<float>{1, 2, 1, 3, 4, 1, 5, 6, 1}));
}

TEST(PermuteByExpert, ScalesWeightsByExpertAndMovesThemToTheInputs) {
  const Permuted scaled = permute(reference_ops(), false, false, {10, 1, 1, 100});
  EXPECT_EQ(scaled.weights, (std::vector<float>{1, 20, 3, 400, 50, 6}));
  const Permuted moved = permute(reference_ops(), false, true, {});
  EXPECT_EQ(moved.input_weights, (std::vector<float>{2, 5, 1, 3, 6, 4}));
  EXPECT_EQ(moved.weights, (std::vector<float>(6, 1.0F)));
}

TEST(RouteExperts, SelectsFromTheTopGroupsOnly) {
  // By its highest score the last group would be selected; by the sum of the top 2 scores, the first group
  // is.
  const std::vector<float> logits = {2.0F, 1.9F, -3.0F, -3.0F, 2.5F, -4.0F};
  RouterParams params = {
      .scoring_func = ScoringFunc::kSigmoid, .num_experts_per_tok = 2, .num_groups = 3, .topk_group = 1};
  EXPECT_EQ(route(logits, params).ids, (std::vector<int32_t>{4, 5}));
  params.group_score_top2 = true;
  EXPECT_EQ(route(logits, params).ids, (std::vector<int32_t>{0, 1}));
  params.topk_group = 2;
  EXPECT_EQ(route(logits, params).ids, (std::vector<int32_t>{4, 0}));
}

TEST(RouteExperts, SparseMixerComparesWithNearbyScores) {
  const Routed routed =
      route({1.0F, 0.95F, 0.5F, 0.93F},
            {.scoring_func = ScoringFunc::kSparseMixer, .num_experts_per_tok = 2, .near = 0.06F});
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{0, 1}));
  expect_weights(routed, {1 / (1 + std::exp(-0.05)), 1 / (1 + std::exp(-0.02))});
}

TEST(RouteExperts, NanLogitsGiveValidExperts) {
  const Routed routed = route({test::kNaN, test::kNaN, test::kNaN}, {.num_experts_per_tok = 2});
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{0, 1}));
}

TEST(RouteExperts, ResultsDoNotDependOnBatchOrThreads) {
  const TestTensor logits = random_tensor(DType::kF32, {37, 64}, 5, 3, 2.0F);
  const RouterParams params = {.scoring_func = ScoringFunc::kSigmoid,
                               .num_experts_per_tok = 6,
                               .num_groups = 8,
                               .topk_group = 3,
                               .norm_topk_prob = true};
  for (const CpuIsa& isa : usable_isas()) {
    const TestTensor all(DType::kF32, {37, 6}, 1);
    std::vector<int32_t> ids(37 * 6);
    isa.table->run(TestContext(*isa.table, 3),
                   ops::RouteExperts{.ids = ids, .weights = all, .logits = logits, .params = params});
    for (int64_t r = 0; r < 37; ++r) {
      const TestTensor alone(DType::kF32, {1, 6});
      std::vector<int32_t> own(6);
      isa.table->run(
          TestContext(*isa.table),
          ops::RouteExperts{
              .ids = own, .weights = alone, .logits = row_slice(logits, r, r + 1), .params = params});
      EXPECT_TRUE(same_row(alone, 0, all, r)) << isa.name;
      EXPECT_TRUE(std::equal(own.begin(), own.end(), ids.begin() + r * 6)) << isa.name;
    }
  }
}

TEST(CombineRows, MatchesTheReferenceForAnyBatch) {
  for (const int64_t d : {1, 7, 16, 33, 500}) {
    const TestTensor y = random_tensor(DType::kF32, {50, d}, 1, 2);
    const TestTensor weights = random_tensor(DType::kF32, {21, 3}, 2, 1);
    const TestTensor residual = random_tensor(DType::kF32, {21, d}, 3, 5);
    std::vector<int32_t> rows(21 * 3);
    std::mt19937 rng(4);
    for (int32_t& p : rows) p = static_cast<int32_t>(rng() % 50);
    for (const bool with_residual : {false, true}) {
      const TensorView base = with_residual ? residual.view() : TensorView{};
      const TestTensor want(DType::kF32, {21, d});
      reference_ops().run(
          TestContext(reference_ops()),
          ops::CombineRows{.out = want, .y = y, .rows = rows, .weights = weights, .residual = base});
      std::vector<TestTensor> results;
      for (const CpuIsa& isa : usable_isas()) {
        const TestTensor out(DType::kF32, {21, d}, 1);
        isa.table->run(
            TestContext(*isa.table, 3),
            ops::CombineRows{.out = out, .y = y, .rows = rows, .weights = weights, .residual = base});
        expect_near(out, want, 1e-6F, 1e-6F, "against the reference");
        for (int64_t r = 0; r < 21; ++r) {
          const TestTensor alone(DType::kF32, {1, d});
          isa.table->run(
              TestContext(*isa.table),
              ops::CombineRows{.out = alone,
                               .y = y,
                               .rows = std::span(rows).subspan(static_cast<size_t>(r * 3), 3),
                               .weights = row_slice(weights, r, r + 1),
                               .residual = with_residual ? row_slice(residual, r, r + 1) : TensorView{}});
          EXPECT_TRUE(same_row(alone, 0, out, r)) << isa.name << ", row " << r;
        }
        if (isa.name != "generic") results.push_back(out);
      }
      for (size_t i = 1; i < results.size(); ++i) EXPECT_TRUE(same_rows(results[0], results[i]));
    }
  }
}

TEST(CombineRows, ResidualMayAliasTheOutput) {
  const TestTensor y = random_tensor(DType::kF32, {4, 20}, 1);
  const TestTensor weights = random_tensor(DType::kF32, {2, 2}, 2);
  const std::vector<int32_t> rows = {3, 0, 1, 1};
  for (const CpuIsa& isa : usable_isas()) {
    const TestTensor residual = random_tensor(DType::kF32, {2, 20}, 3);
    const TestTensor out(DType::kF32, {2, 20});
    isa.table->run(
        TestContext(*isa.table),
        ops::CombineRows{.out = out, .y = y, .rows = rows, .weights = weights, .residual = residual});
    isa.table->run(
        TestContext(*isa.table),
        ops::CombineRows{.out = residual, .y = y, .rows = rows, .weights = weights, .residual = residual});
    EXPECT_TRUE(same_rows(out, residual)) << isa.name;
  }
}

}  // namespace
}  // namespace quire
