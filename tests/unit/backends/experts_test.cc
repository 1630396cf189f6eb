// Choosing experts and summing what they give.
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

using testing::expect_near;
using testing::random_tensor;
using testing::same_row;
using testing::same_rows;
using testing::TestContext;
using testing::TestTensor;
using testing::usable_isas;

struct Routed {
  std::vector<int32_t> ids;
  std::vector<float> weights;
};

Routed route(const OpTable& table, const std::vector<float>& logits, const RouterParams& params) {
  std::vector<float> copy = logits;
  Routed out{std::vector<int32_t>(static_cast<size_t>(params.num_chosen)),
             std::vector<float>(static_cast<size_t>(params.num_chosen))};
  table.route_experts(TestContext(table), out.ids,
                      make_view(out.weights.data(), DType::kF32, {1, params.num_chosen}),
                      make_view(copy.data(), DType::kF32, {1, static_cast<int64_t>(copy.size())}), params);
  return out;
}

Routed route(const std::vector<float>& logits, const RouterParams& params) {
  return route(reference_ops(), logits, params);
}

void expect_weights(const Routed& routed, const std::vector<double>& want) {
  ASSERT_EQ(routed.weights.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(routed.weights[i], want[i], 1e-6) << i;
}

TEST(RouteExperts, SoftmaxOverAllChoosesTheBestFirst) {
  const std::vector<float> logits = {0.5F, 2.0F, -1.0F, 1.0F};
  double sum = 0;
  for (const float l : logits) sum += std::exp(l);
  const Routed routed = route(logits, {.num_chosen = 2});
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{1, 3}));
  expect_weights(routed, {std::exp(2.0) / sum, std::exp(1.0) / sum});
  const Routed scaled = route(logits, {.num_chosen = 2, .normalize = true, .scale = 3.0F});
  const double both = std::exp(2.0) + std::exp(1.0);
  expect_weights(scaled, {3 * std::exp(2.0) / both, 3 * std::exp(1.0) / both});
  const Routed chosen = route(logits, {.scores = RouterScores::kChosenSoftmax, .num_chosen = 2});
  EXPECT_EQ(chosen.ids, routed.ids);
  expect_weights(chosen, {std::exp(2.0) / both, std::exp(1.0) / both});
}

TEST(RouteExperts, TiesGoToTheLowerNumber) {
  for (const RouterScores scores :
       {RouterScores::kSoftmax, RouterScores::kSigmoid, RouterScores::kChosenSoftmax}) {
    const Routed routed = route({1.0F, 3.0F, 1.0F, 3.0F, 1.0F}, {.scores = scores, .num_chosen = 4});
    EXPECT_EQ(routed.ids, (std::vector<int32_t>{1, 3, 0, 2}));
  }
}

TEST(RouteExperts, ACorrectionChoosesButDoesNotWeigh) {
  const std::vector<float> correction = {0.0F, 0.0F, 0.9F};
  const Routed routed =
      route({2.0F, 1.0F, -1.0F},
            {.scores = RouterScores::kSigmoid, .num_chosen = 2, .correction = correction.data()});
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{2, 0}));
  expect_weights(routed, {1 / (1 + std::exp(1.0)), 1 / (1 + std::exp(-2.0))});
}

TEST(RouteExperts, RootsOfSoftplusAreScores) {
  const std::vector<float> logits = {0.5F, 2.0F, -1.0F, 30.0F};
  const auto score = [](double x) { return std::sqrt(std::log1p(std::exp(x))); };
  const Routed routed = route(logits, {.scores = RouterScores::kSqrtSoftplus, .num_chosen = 3});
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{3, 1, 0}));
  expect_weights(routed, {score(30.0), score(2.0), score(0.5)});
}

TEST(RouteExperts, ExpertsThatAreGivenAreOnlyWeighed) {
  for (const CpuIsa& isa : usable_isas()) {
    std::vector<float> logits = {0.5F, 2.0F, -1.0F, 1.0F};
    std::vector<int32_t> ids = {2, 0};
    std::vector<float> weights(2);
    isa.table->route_experts(
        TestContext(*isa.table), ids, make_view(weights.data(), DType::kF32, {1, 2}),
        make_view(logits.data(), DType::kF32, {1, 4}),
        {.scores = RouterScores::kSigmoid, .num_chosen = 2, .normalize = true, .scale = 3.0F, .given = true});
    EXPECT_EQ(ids, (std::vector<int32_t>{2, 0})) << isa.name;
    const double first = 1 / (1 + std::exp(1.0));
    const double second = 1 / (1 + std::exp(-0.5));
    expect_weights({ids, weights}, {3 * first / (first + second), 3 * second / (first + second)});
  }
}

TEST(RouteExperts, OnlyTheBestGroupsAreLookedAt) {
  // By its best the last group wins, by its two best the first.
  const std::vector<float> logits = {2.0F, 1.9F, -3.0F, -3.0F, 2.5F, -4.0F};
  RouterParams params = {
      .scores = RouterScores::kSigmoid, .num_chosen = 2, .num_groups = 3, .chosen_groups = 1};
  EXPECT_EQ(route(logits, params).ids, (std::vector<int32_t>{4, 5}));
  params.group_pairs = true;
  EXPECT_EQ(route(logits, params).ids, (std::vector<int32_t>{0, 1}));
  params.chosen_groups = 2;
  EXPECT_EQ(route(logits, params).ids, (std::vector<int32_t>{4, 0}));
}

TEST(RouteExperts, SparseMixerWeighsAgainstThoseThatComeNear) {
  const Routed routed = route({1.0F, 0.95F, 0.5F, 0.93F},
                              {.scores = RouterScores::kSparseMixer, .num_chosen = 2, .near = 0.06F});
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{0, 1}));
  expect_weights(routed, {1 / (1 + std::exp(-0.05)), 1 / (1 + std::exp(-0.02))});
}

TEST(RouteExperts, NotANumberStillGivesExpertsThatAreThere) {
  const Routed routed = route({testing::kNaN, testing::kNaN, testing::kNaN}, {.num_chosen = 2});
  EXPECT_EQ(routed.ids, (std::vector<int32_t>{0, 1}));
}

TEST(RouteExperts, ARowDoesNotDependOnTheOthersNorOnThreads) {
  const TestTensor logits = random_tensor(DType::kF32, {37, 64}, 5, 3, 2.0F);
  const RouterParams params = {.scores = RouterScores::kSigmoid,
                               .num_chosen = 6,
                               .num_groups = 8,
                               .chosen_groups = 3,
                               .normalize = true};
  for (const CpuIsa& isa : usable_isas()) {
    const TestTensor all(DType::kF32, {37, 6}, 1);
    std::vector<int32_t> ids(37 * 6);
    isa.table->route_experts(TestContext(*isa.table, 3), ids, all, logits, params);
    for (int64_t r = 0; r < 37; ++r) {
      const TestTensor alone(DType::kF32, {1, 6});
      std::vector<int32_t> own(6);
      isa.table->route_experts(TestContext(*isa.table), own, alone, row_slice(logits, r, r + 1), params);
      EXPECT_TRUE(same_row(alone, 0, all, r)) << isa.name;
      EXPECT_TRUE(std::equal(own.begin(), own.end(), ids.begin() + r * 6)) << isa.name;
    }
  }
}

TEST(CombineRows, AgreesWithTheReferenceAndDoesNotDependOnOtherRows) {
  for (const int64_t d : {1, 7, 16, 33, 500}) {
    const TestTensor y = random_tensor(DType::kF32, {50, d}, 1, 2);
    const TestTensor weights = random_tensor(DType::kF32, {21, 3}, 2, 1);
    const TestTensor residual = random_tensor(DType::kF32, {21, d}, 3, 5);
    std::vector<int32_t> places(21 * 3);
    std::mt19937 rng(4);
    for (int32_t& p : places) p = static_cast<int32_t>(rng() % 50);
    for (const bool with_residual : {false, true}) {
      const TensorView base = with_residual ? residual.view() : TensorView{};
      const TestTensor want(DType::kF32, {21, d});
      reference_ops().combine_rows(TestContext(reference_ops()), want, y, places, weights, base);
      std::vector<TestTensor> results;
      for (const CpuIsa& isa : usable_isas()) {
        const TestTensor out(DType::kF32, {21, d}, 1);
        isa.table->combine_rows(TestContext(*isa.table, 3), out, y, places, weights, base);
        expect_near(out, want, 1e-6F, 1e-6F, "against the reference");
        for (int64_t r = 0; r < 21; ++r) {
          const TestTensor alone(DType::kF32, {1, d});
          isa.table->combine_rows(
              TestContext(*isa.table), alone, y, std::span(places).subspan(static_cast<size_t>(r * 3), 3),
              row_slice(weights, r, r + 1), with_residual ? row_slice(residual, r, r + 1) : TensorView{});
          EXPECT_TRUE(same_row(alone, 0, out, r)) << isa.name << ", row " << r;
        }
        if (isa.name != "generic") results.push_back(out);
      }
      for (size_t i = 1; i < results.size(); ++i) EXPECT_TRUE(same_rows(results[0], results[i]));
    }
  }
}

TEST(CombineRows, TheResidualMayBeTheResult) {
  const TestTensor y = random_tensor(DType::kF32, {4, 20}, 1);
  const TestTensor weights = random_tensor(DType::kF32, {2, 2}, 2);
  const std::vector<int32_t> places = {3, 0, 1, 1};
  for (const CpuIsa& isa : usable_isas()) {
    const TestTensor residual = random_tensor(DType::kF32, {2, 20}, 3);
    const TestTensor out(DType::kF32, {2, 20});
    isa.table->combine_rows(TestContext(*isa.table), out, y, places, weights, residual);
    isa.table->combine_rows(TestContext(*isa.table), residual, y, places, weights, residual);
    EXPECT_TRUE(same_rows(out, residual)) << isa.name;
  }
}

}  // namespace
}  // namespace quire
