#include "sim/cost_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace quire::sim {
namespace {

using testing::HasSubstr;

StepLoad load(int64_t tokens, int64_t sequences, int64_t context, int64_t pairs) {
  return {tokens, sequences, context, pairs, 0};
}

// Steps of all kinds: decode batches and prompts.
std::vector<MeasuredStep> steps_of(const LinearCost& cost) {
  const CostModel model(cost);
  std::vector<MeasuredStep> steps;
  for (const int64_t batch : {1, 4, 16, 64}) {
    for (const int64_t length : {16, 128, 700}) {
      StepLoad decode;
      for (int64_t i = 0; i < batch; ++i) decode.add(length, 1);
      steps.push_back({decode, model.seconds(decode)});
    }
  }
  for (const int64_t prompt : {8, 64, 512, 1024}) {
    StepLoad prefill;
    prefill.add(0, prompt);
    steps.push_back({prefill, model.seconds(prefill)});
  }
  return steps;
}

TEST(StepLoad, CountsAttendedPositions) {
  StepLoad step;
  step.add(0, 4);   // 1 + 2 + 3 + 4 pairs
  step.add(10, 1);  // attends to itself and 10 others
  EXPECT_EQ(step.tokens, 5);
  EXPECT_EQ(step.sequences, 2);
  EXPECT_EQ(step.context, 15);
  EXPECT_EQ(step.pairs, 21);
}

TEST(CostModel, RecoversTheCoefficients) {
  const LinearCost truth{1e-3, 2e-5, 3e-6, 4e-8, 5e-9};
  const auto steps = steps_of(truth);
  const LinearCost fit = fit_linear(steps);
  EXPECT_NEAR(fit.base, truth.base, 1e-3 * truth.base);
  EXPECT_NEAR(fit.per_token, truth.per_token, 1e-2 * truth.per_token);
  EXPECT_NEAR(fit.per_sequence, truth.per_sequence, 1e-1 * truth.per_sequence);
  EXPECT_NEAR(fit.per_context, truth.per_context, 1e-2 * truth.per_context);
  EXPECT_NEAR(fit.per_pair, truth.per_pair, 1e-2 * truth.per_pair);
  EXPECT_LT(fit_error(CostModel(fit), steps).worst, 1e-3);
}

TEST(CostModel, FitsHigherCostsBeyondTheKnots) {
  LinearCost truth{1e-3, 2e-5, 3e-6, 4e-8, 5e-9};
  truth.per_sequence_beyond_8 = 1e-5;
  truth.per_context_beyond_4096 = 2e-7;
  const auto steps = steps_of(truth);
  EXPECT_LT(fit_error(CostModel(fit_linear(steps)), steps).worst, 1e-3);
  const CostModel model(truth);
  const double step = model.seconds(load(1, 1, 1, 1));
  EXPECT_NEAR(model.seconds(load(1, 10, 1, 1)) - step, 9 * 3e-6 + 2 * 1e-5, 1e-12);
  EXPECT_NEAR(model.seconds(load(1, 1, 5001, 1)) - step, 5000 * 4e-8 + 905 * 2e-7, 1e-12);
}

TEST(CostModel, FitsTheMeanOfScatteredTimes) {
  // Three of four steps take half of the mean and one takes 2.5 times the mean. A fit of relative errors
  // would follow the short steps and underestimate the sum of many steps by half.
  const LinearCost truth{1e-3, 2e-5, 3e-6, 4e-8, 5e-9};
  const CostModel model(truth);
  std::vector<MeasuredStep> steps;
  std::vector<MeasuredStep> counted;
  for (const MeasuredStep& step : steps_of(truth)) {
    for (const double factor : {0.5, 0.5, 0.5, 2.5}) steps.push_back({step.load, factor * step.seconds});
    counted.push_back({step.load, step.seconds, 99});
    counted.push_back({step.load, 10.0 * step.seconds, 1});
  }
  const CostModel scattered(fit_linear(steps));
  const CostModel weighted(fit_linear(counted));
  for (const MeasuredStep& step : steps_of(truth)) {
    EXPECT_NEAR(scattered.seconds(step.load) / model.seconds(step.load), 1.0, 1e-3);
    EXPECT_LT(weighted.seconds(step.load), 1.2 * step.seconds) << "a step that was seen once counts for one";
  }
}

TEST(CostModel, AddsTheCostOfTheFirstStepAfterAPause) {
  LinearCost truth{1e-3, 2e-5, 3e-6, 4e-8, 5e-9};
  auto steps = steps_of(truth);
  for (size_t i = 0; i < 12; ++i) {
    steps.push_back(steps[i]);
    steps.back().load.pauses = 1;
    steps.back().seconds += 5e-4;
  }
  EXPECT_NEAR(fit_linear(steps).per_pause, 5e-4, 1e-6);
}

TEST(CostModel, MergesSimilarSteps) {
  StepLoad pause = load(64, 64, 6400, 6400);
  pause.pauses = 1;
  const std::vector<MeasuredStep> steps = {{load(64, 64, 6400, 6400), 2e-3},
                                           {load(64, 64, 6464, 6464), 4e-3, 3},
                                           {load(1, 1, 100, 100), 1e-3},
                                           {pause, 9e-3}};
  const auto merged = merge_alike(steps);
  ASSERT_EQ(merged.size(), 3U);
  EXPECT_EQ(merged[0].load.tokens, 1);
  EXPECT_EQ(merged[1].count, 4);
  EXPECT_EQ(merged[1].load.context, 6448);
  EXPECT_NEAR(merged[1].seconds, 3.5e-3, 1e-12);
  EXPECT_EQ(merged[2].load.pauses, 1);
}

TEST(CostModel, FitsNonNegativeCoefficients) {
  // Times that decrease with the context: unconstrained least squares has a negative coefficient.
  std::vector<MeasuredStep> steps;
  for (int64_t context = 1; context <= 10; ++context)
    steps.push_back({load(1, 1, 100 * context, 100 * context), 1e-3 - 1e-5 * static_cast<double>(context)});
  const LinearCost fit = fit_linear(steps);
  for (const double c : {fit.base, fit.per_token, fit.per_sequence, fit.per_context, fit.per_pair})
    EXPECT_GE(c, 0.0);
  EXPECT_LT(fit_error(CostModel(fit), steps).mean, 0.1);
  EXPECT_THROW(fit_linear(std::span(steps).first(4)), Error);
  steps[0].seconds = 0.0;
  EXPECT_THROW(fit_linear(steps), Error);
}

TEST(CostModel, SatisfiesTheOptimalityConditionsOfNonNegativeLeastSquares) {
  // min |A x - b| with x >= 0: where x > 0 the gradient is 0, elsewhere it does not point inwards.
  const std::vector<double> rows = {1, 2, 0, 0, 1, 1, 2, 0, 1, 1, 1, 1, 3, 1, 2};
  const std::vector<double> targets = {1, -2, 3, 0, 1};
  const auto x = non_negative_least_squares(rows, 3, targets);
  for (size_t j = 0; j < 3; ++j) {
    double gradient = 0.0;
    for (size_t r = 0; r < 5; ++r) {
      double residual = targets[r];
      for (size_t k = 0; k < 3; ++k) residual -= rows[3 * r + k] * x[k];
      gradient += rows[3 * r + j] * residual;
    }
    EXPECT_GE(x[j], 0.0);
    if (x[j] > 1e-9) {
      EXPECT_NEAR(gradient, 0.0, 1e-8);
    } else {
      EXPECT_LE(gradient, 1e-8);
    }
  }
}

TEST(CostModel, RooflineUsesTheLongerOfComputeAndMemory) {
  RooflineCost cost;
  cost.flops = 100.0;
  cost.bandwidth = 10.0;
  cost.overhead = 0.5;
  cost.flops_per_token = 200.0;
  cost.flops_per_pair = 1.0;
  cost.weight_bytes = 50.0;
  cost.kv_bytes_per_token = 1.0;
  const CostModel model(cost);
  EXPECT_DOUBLE_EQ(model.seconds(load(1, 1, 10, 10)), 0.5 + 6.0);     // memory: (50 + 10) / 10
  EXPECT_DOUBLE_EQ(model.seconds(load(10, 1, 10, 55)), 0.5 + 20.55);  // compute: (2000 + 55) / 100
  cost.state_bytes = 30.0;
  EXPECT_DOUBLE_EQ(CostModel(cost).seconds(load(1, 2, 10, 10)), 0.5 + 12.0);  // (50 + 10 + 2 * 30) / 10
  cost.flops = 0.0;
  EXPECT_THROW(CostModel{cost}, Error);
  EXPECT_THROW(CostModel(LinearCost{-1.0, 1.0, 0.0, 0.0, 0.0}), Error);
  EXPECT_THROW(CostModel(LinearCost{}), Error) << "steps that take no time";
}

// Writes a file and returns the error from reading it, or an empty string.
std::string read_failure(const std::string& content, double* seconds = nullptr) {
  const auto path =
      std::filesystem::temp_directory_path() / ("quire-cost-" + std::to_string(getpid()) + ".json");
  std::ofstream(path) << content;
  std::string failure;
  try {
    const CostModel model = read_cost_model(path.string());
    if (seconds != nullptr) *seconds = model.seconds(load(2, 1, 3, 4));
  } catch (const Error& error) {
    failure = error.what();
  }
  std::filesystem::remove(path);
  return failure;
}

TEST(CostModel, ReadsFilesAndReportsErrors) {
  double seconds = 0.0;
  EXPECT_EQ(read_failure(R"({"cost_model": {"base_s": 1, "per_token_s": 0.1, "per_sequence_s": 0.01,
                              "per_context_token_s": 0.001, "per_pair_s": 0.0001}})",
                         &seconds),
            "");
  EXPECT_NEAR(seconds, 1.2134, 1e-12);
  std::string steps;
  for (const auto& step : steps_of({1e-3, 2e-5, 0.0, 4e-8, 0.0})) {
    steps += (steps.empty() ? "" : ",") + std::string("{\"tokens\":") + std::to_string(step.load.tokens) +
             ",\"sequences\":" + std::to_string(step.load.sequences) +
             ",\"context\":" + std::to_string(step.load.context) +
             ",\"pairs\":" + std::to_string(step.load.pairs) +
             ",\"seconds\":" + std::to_string(step.seconds) + "}";
  }
  EXPECT_EQ(read_failure("{\"steps\": [" + steps + "]}", &seconds), "");
  EXPECT_NEAR(seconds, 1.04e-3, 2e-5);
  EXPECT_THAT(read_failure("["), HasSubstr("not a JSON object"));
  EXPECT_THAT(read_failure("{}"), HasSubstr("neither 'cost_model' nor 'steps'"));
  EXPECT_THAT(read_failure(R"({"cost_model": {"base_s": 1}})"), HasSubstr("'per_token_s'"));
  EXPECT_THAT(read_failure(R"({"steps": [{"tokens": 1}]})"),
              HasSubstr("step 0 needs the number 'sequences'"));
  EXPECT_THROW(read_cost_model("/nonexistent.json"), Error);
}

}  // namespace
}  // namespace quire::sim
