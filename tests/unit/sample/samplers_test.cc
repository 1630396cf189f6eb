// The samplers of llama.cpp: their order, their random decisions and their state. Their distributions are
// compared in golden_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sample/sampler.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr float kMasked = std::numeric_limits<float>::infinity();

SamplingState state_of(const SamplingParams& params, int32_t vocab_size, uint64_t seed = 1,
                       int32_t sample = 0) {
  return SamplingState(params, {}, {}, seed, sample, vocab_size);
}

SampleOutcome draw(std::vector<float> logits, const SamplingState& state, int64_t position = 0) {
  SamplerWorkspace workspace(static_cast<int32_t>(logits.size()));
  auto result = sample_token(logits, state, position, workspace);
  EXPECT_TRUE(result.ok());
  return result.ok() ? *result : SampleOutcome{};
}

std::vector<TokenId> kept_at(std::vector<float> logits, const SamplingState& state, int64_t position = 0) {
  SamplerWorkspace workspace(static_cast<int32_t>(logits.size()));
  auto result = filtered_distribution(logits, state, workspace, {}, position);
  EXPECT_TRUE(result.ok());
  std::vector<TokenId> tokens;
  for (const TokenProbability& entry : *result) tokens.push_back(entry.token);
  return tokens;
}

TEST(Samplers, TheListGivesTheOrderAndLeavesOutTheRest) {
  SamplingParams params;
  params.top_k = 2;
  params.min_p = 0.5F;
  params.temperature = 0.1F;
  const std::vector<float> logits = {2.0F, 1.5F, 1.4F, -3.0F};
  EXPECT_THAT(kept_at(logits, state_of(params, 4)), ElementsAre(0));
  params.samplers = {"min_p", "temperature"};
  EXPECT_THAT(kept_at(logits, state_of(params, 4)), ElementsAre(0, 1, 2)) << "min_p of the raw distribution";
  params.samplers = {"top-k"};
  EXPECT_THAT(kept_at(logits, state_of(params, 4)), ElementsAre(0, 1));
}

TEST(Samplers, RejectsUnknownAndRepeatedNamesAndLatePenalties) {
  const auto message = [](std::vector<std::string> names) {
    const auto chain = read_samplers(names);
    return chain.ok() ? std::string() : chain.failure().message;
  };
  EXPECT_THAT(message({"top_k", "mirostat"}), HasSubstr("not 'mirostat'"));
  EXPECT_THAT(message({"top_k", "top-k"}), HasSubstr("top-k twice"));
  EXPECT_THAT(message({"top_k", "penalties"}), HasSubstr("penalties first"));
  EXPECT_THAT(message({"dry", "penalties"}), HasSubstr("penalties first"));
  EXPECT_EQ(
      message({"penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature"}),
      "");
}

TEST(Samplers, XtcAppliesToItsShareOfPositionsAndDependsOnNothingElse) {
  SamplingParams params;
  params.xtc_probability = 0.25F;
  const std::vector<float> logits = {2.0F, 1.0F, 0.0F};
  constexpr int kPositions = 2000;
  int applied = 0;
  std::set<std::vector<bool>> patterns;
  for (const uint64_t seed : {1U, 2U}) {
    for (const int32_t sample : {0, 1}) {
      std::vector<bool> pattern;
      for (int position = 0; position < kPositions; ++position) {
        const SamplingState state = state_of(params, 3, seed, sample);
        pattern.push_back(kept_at(logits, state, position) == std::vector<TokenId>{1, 2} ||
                          kept_at(logits, state, position) == std::vector<TokenId>{2});
        applied += pattern.back() ? 1 : 0;
      }
      patterns.insert(pattern);
    }
  }
  EXPECT_EQ(patterns.size(), 4U) << "each sample of each seed has its own";
  EXPECT_NEAR(applied / (4.0 * kPositions), 0.25, 0.02);
}

TEST(Samplers, XtcKeepsTheLastOfEquallyLikelyChoices) {
  SamplingParams params;
  params.xtc_probability = 1.0F;
  EXPECT_THAT(kept_at({1.0F, 1.0F, 1.0F, -1.0F}, state_of(params, 4)), ElementsAre(2, 3));
  params.xtc_threshold = 0.0F;
  EXPECT_THAT(kept_at({1.0F, 2.0F, -kMasked}, state_of(params, 3)), ElementsAre(0))
      << "masked tokens stay out";
}

TEST(Samplers, MirostatReportsTheSurpriseThatMovesItsBound) {
  SamplingParams params;
  params.mirostat_mode = 2;
  params.mirostat_tau = 1.0F;
  params.mirostat_eta = 0.5F;
  SamplingState state = state_of(params, 4);
  EXPECT_DOUBLE_EQ(state.max_surprise(), 2.0);
  const std::vector<float> logits(4, 0.0F);
  const SampleOutcome outcome = draw(logits, state);
  EXPECT_NEAR(outcome.surprise, 2.0F, 1e-5F) << "one of four";
  const SamplingState other = state.fork(1);
  state.append(outcome.token, outcome.surprise);
  EXPECT_NEAR(state.max_surprise(), 1.5, 1e-5);
  EXPECT_DOUBLE_EQ(other.max_surprise(), 2.0) << "a fork has a bound of its own";
  EXPECT_THAT(kept_at(logits, state), ElementsAre(0)) << "the most likely token always remains";
}

TEST(Samplers, MirostatReplacesTruncation) {
  SamplingParams params;
  params.mirostat_mode = 2;
  params.top_k = 1;
  params.top_p = 0.01F;
  EXPECT_EQ(kept_at(std::vector<float>(20, 0.0F), state_of(params, 20)).size(), 20U);
}

TEST(Samplers, TemperatureZeroIgnoresAllThatChooses) {
  SamplingParams params;
  params.temperature = 0.0F;
  params.xtc_probability = 1.0F;
  params.mirostat_mode = 2;
  params.dynatemp_range = 1.0F;
  const SampleOutcome outcome = draw({0.0F, 3.0F, 2.9F}, state_of(params, 3));
  EXPECT_EQ(outcome.token, 1);
  EXPECT_EQ(outcome.surprise, 0.0F);
}

TEST(Samplers, DryLeavesTheOnlyTokenOfAGrammar) {
  SamplingParams params;
  params.dry_multiplier = std::numeric_limits<float>::max();
  params.dry_allowed_length = 1;
  SamplingState state(params, std::vector<TokenId>{1, 2, 1}, {}, 1, 0, 4);
  std::vector<float> logits(4, -1e30F);
  SamplerWorkspace workspace(4);
  const std::vector<uint32_t> only_two = {1U << 2};
  const auto outcome = sample_token(logits, state, 0, workspace, only_two);
  ASSERT_TRUE(outcome.ok());
  EXPECT_EQ(outcome->token, 2);
}

TEST(Samplers, StdDeviationOfExtremeLogitsKeepsEverything) {
  SamplingParams params;
  params.top_n_sigma = 1.0F;
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(draw({largest, -largest, 0.0F}, state_of(params, 3)).token, 0);
}

TEST(Samplers, BadWordsExcludeTheirLastTokenAfterTheTokensBeforeIt) {
  auto words = std::make_shared<SamplingWords>();
  words->bad_words = {{2}, {1, 0}, {99}};
  SamplingParams params;
  SamplingState state(params, std::vector<TokenId>{1}, {}, 1, 0, 4, words);
  const std::vector<float> logits(4, 0.0F);
  EXPECT_THAT(kept_at(logits, state), ElementsAre(0, 1, 3)) << "the prompt does not count";
  state.append(1);
  EXPECT_THAT(kept_at(logits, state), ElementsAre(1, 3));
  state.append(3);
  EXPECT_THAT(kept_at(logits, state), ElementsAre(0, 1, 3));
}

TEST(Samplers, TokensAreKeptOnlyIfASamplerNeedsThem) {
  SamplingParams params;
  SamplingState plain(params, std::vector<TokenId>{1, 2}, {}, 1, 0, 4);
  plain.append(3);
  EXPECT_THAT(plain.history(), IsEmpty());
  params.dry_multiplier = 1.0F;
  SamplingState with_dry(params, std::vector<TokenId>{1, 2}, {}, 1, 0, 4);
  with_dry.append(3);
  EXPECT_THAT(with_dry.history(), ElementsAre(1, 2, 3));
  EXPECT_THAT(with_dry.output(), ElementsAre(3));
  params.samplers = {"penalties", "top_k"};
  EXPECT_THAT(SamplingState(params, std::vector<TokenId>{1, 2}, {}, 1, 0, 4).history(), IsEmpty());
}

TEST(Samplers, LogprobsOfGivenTokensReplaceTheMostLikelyOnes) {
  SamplingParams params;
  params.temperature = 0.0F;
  params.logprobs = 2;
  params.logprob_token_ids = {3, 0, 77};
  const SampleOutcome outcome = draw({0.0F, 3.0F, 2.0F, -1.0F}, state_of(params, 4));
  ASSERT_TRUE(outcome.logprobs.has_value());
  EXPECT_EQ(outcome.logprobs->chosen.token, 1);
  ASSERT_EQ(outcome.logprobs->top.size(), 2U) << "ids outside of the vocabulary are left out";
  EXPECT_EQ(outcome.logprobs->top[0].token, 3);
  EXPECT_EQ(outcome.logprobs->top[1].token, 0);
  EXPECT_NEAR(outcome.logprobs->top[0].logprob - outcome.logprobs->top[1].logprob, -1.0F, 1e-5F);
}

}  // namespace
}  // namespace quire
