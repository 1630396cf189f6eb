#include "sample/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "sample/beam_search.h"

namespace quire {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_row(size_t size, float spread, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0.0F, spread);
  std::vector<float> row(size);
  std::generate(row.begin(), row.end(), [&] { return normal(generator); });
  return row;
}

SamplingParams greedy_params() {
  SamplingParams params;
  params.temperature = 0.0F;
  return params;
}

SamplingState make_state(const SamplingParams& params, size_t vocab_size, uint64_t seed = 1,
                         int32_t sample = 0, std::vector<TokenId> end_tokens = {}) {
  return SamplingState(params, {}, end_tokens, seed, sample, static_cast<int32_t>(vocab_size));
}

SampleOutcome sample(std::vector<float> logits, const SamplingState& state, int64_t position = 0,
                     TokenMask grammar = {}) {
  SamplerWorkspace workspace(static_cast<int32_t>(logits.size()));
  auto result = sample_token(logits, state, position, workspace, grammar);
  EXPECT_TRUE(result.ok());
  return result.ok() ? *result : SampleOutcome{};
}

std::vector<TokenId> kept(std::vector<float> logits, const SamplingState& state, TokenMask grammar = {}) {
  SamplerWorkspace workspace(static_cast<int32_t>(logits.size()));
  auto result = filtered_distribution(logits, state, workspace, grammar);
  EXPECT_TRUE(result.ok());
  std::vector<TokenId> tokens;
  for (const TokenProbability& entry : *result) {
    tokens.push_back(entry.token);
  }
  return tokens;
}

TEST(Sampler, GreedySelectsTheLowestIdAmongEqualLogits) {
  std::vector<float> logits(700, -1.0F);
  logits[300] = logits[301] = logits[650] = 2.0F;
  EXPECT_EQ(sample(logits, make_state(greedy_params(), logits.size())).token, 300);
}

TEST(Sampler, GreedyIgnoresTruncation) {
  SamplingParams params = greedy_params();
  params.top_p = 0.1F;
  params.top_k = 1;
  params.min_p = 0.9F;
  EXPECT_EQ(sample({0.0F, 1.0F, 3.0F}, make_state(params, 3)).token, 2);
}

TEST(Sampler, TopKKeepsExactlyKAmongEqualLogits) {
  SamplingParams params;
  params.top_k = 3;
  EXPECT_THAT(kept({1.0F, 2.0F, 1.0F, 1.0F, 1.0F}, make_state(params, 5)), ElementsAre(0, 1, 2));
}

TEST(Sampler, TopPKeepsTheLowerIdsAmongEqualLogits) {
  SamplingParams params;
  params.top_p = 0.45F;
  EXPECT_THAT(kept(std::vector<float>(10, 0.5F), make_state(params, 10)), ElementsAre(0, 1, 2, 3, 4));
}

TEST(Sampler, TopPKeepsAtLeastOneToken) {
  SamplingParams params;
  params.top_p = 1e-7F;
  EXPECT_THAT(kept({0.0F, 0.5F, 0.25F}, make_state(params, 3)), ElementsAre(1));
}

TEST(Sampler, MinPOfOneKeepsTheMostLikelyOnly) {
  SamplingParams params;
  params.min_p = 1.0F;
  EXPECT_THAT(kept({0.0F, 2.0F, 1.0F, 2.0F}, make_state(params, 4)), ElementsAre(1, 3));
}

// Compares partial selection with full sorting, for long rows that are flat, peaked, or have many equal
// entries.
TEST(Sampler, PartialSelectionMatchesSorting) {
  constexpr size_t kVocab = 30011;
  for (const float spread : {0.001F, 1.0F, 6.0F, -1.0F}) {
    std::vector<float> logits = random_row(kVocab, std::abs(spread), 77);
    if (spread < 0.0F) {
      for (float& logit : logits) {
        logit = std::round(logit * 4.0F);
      }
    }
    std::vector<TokenId> order(kVocab);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
      return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
    });
    for (const int32_t top_k : {1, 20, 117, 118, 119, 5000, 30010}) {
      SamplingParams params;
      params.top_k = top_k;
      std::vector<TokenId> expected(order.begin(), order.begin() + top_k);
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(kept(logits, make_state(params, kVocab)), expected) << spread << " top_k " << top_k;
    }
    double total = 0.0;
    for (const float logit : logits) {
      total += std::exp(double{logit});
    }
    for (const float top_p : {0.05F, 0.5F, 0.95F, 0.9999F}) {
      SamplingParams params;
      params.top_p = top_p;
      size_t count = 0;
      double sum = 0.0;
      while (sum < double{top_p} * total) {
        sum += std::exp(double{logits[static_cast<size_t>(order[count])]});
        ++count;
      }
      const std::vector<TokenId> tokens = kept(logits, make_state(params, kVocab));
      // A flat row has many entries within a rounding error of the cutoff.
      EXPECT_NEAR(static_cast<double>(tokens.size()), static_cast<double>(count), 1.0 + 1e-4 * kVocab)
          << spread << " top_p " << top_p;
      std::vector<TokenId> expected(order.begin(), order.begin() + static_cast<ptrdiff_t>(tokens.size()));
      std::sort(expected.begin(), expected.end());
      EXPECT_EQ(tokens, expected) << spread << " top_p " << top_p;
    }
  }
}

double chi_square(const SamplingParams& params, const std::vector<float>& row, int draws, size_t* cells) {
  std::vector<float> logits = row;
  const SamplingState state = make_state(params, logits.size(), 99);
  SamplerWorkspace workspace(static_cast<int32_t>(logits.size()));
  const auto distribution = filtered_distribution(logits, state, workspace).value();
  std::vector<int> counts(logits.size());
  for (int position = 0; position < draws; ++position) {
    ++counts[static_cast<size_t>(sample_token(logits, state, position, workspace)->token)];
  }
  double sum = 0.0;
  int rare_count = 0;  // cells that are too rare for the statistic are pooled
  double rare_expected = 0.0;
  *cells = 0;
  for (const TokenProbability& entry : distribution) {
    const double expected = double{entry.probability} * draws;
    const int count = counts[static_cast<size_t>(entry.token)];
    if (expected < 8.0) {
      rare_count += count;
      rare_expected += expected;
      continue;
    }
    sum += (count - expected) * (count - expected) / expected;
    ++*cells;
  }
  if (rare_expected > 8.0) {
    sum += (rare_count - rare_expected) * (rare_count - rare_expected) / rare_expected;
    ++*cells;
  }
  return sum;
}

// A quantile far in the tail of the chi-square distribution (mean = degrees of freedom, variance = twice the
// mean).
double chi_square_limit(size_t cells) {
  const auto freedom = static_cast<double>(cells - 1);
  return freedom + 4.0 * std::sqrt(2.0 * freedom);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  std::vector<SamplingParams> all(5);
  all[1].temperature = 0.6F;
  all[2].top_p = 0.8F;
  all[3].top_k = 30;
  all[3].top_p = 0.9F;
  all[4].min_p = 0.05F;
  all[4].temperature = 1.5F;
  for (const SamplingParams& params : all) {
    size_t cells = 0;
    const double statistic = chi_square(params, random_row(600, 1.5F, 3), 60000, &cells);
    ASSERT_GT(cells, 10U);
    EXPECT_LT(statistic, chi_square_limit(cells)) << cells;
    EXPECT_GT(statistic, static_cast<double>(cells - 1) * 0.3)
        << cells;  // a fit that is too good is an error, too
  }
}

TEST(Sampler, DrawsDependOnlyOnSeedSampleAndPosition) {
  const std::vector<float> logits = random_row(5000, 1.0F, 8);
  const SamplingParams params;
  const auto tokens = [&](uint64_t seed, int32_t sample_index, size_t workspace_use) {
    SamplerWorkspace workspace(5000);
    std::vector<TokenId> drawn;
    for (int64_t position = 10; position < 40; ++position) {
      for (size_t i = 0; i < workspace_use; ++i) {  // other sequences of the batch are sampled in between
        std::vector<float> other = random_row(5000, 3.0F, static_cast<uint32_t>(i));
        SamplingParams truncated;
        truncated.top_p = 0.9F;
        (void)sample_token(other, make_state(truncated, 5000, i), position, workspace);
      }
      std::vector<float> row = logits;
      drawn.push_back(
          sample_token(row, make_state(params, 5000, seed, sample_index), position, workspace)->token);
    }
    return drawn;
  };
  const std::vector<TokenId> alone = tokens(4, 0, 0);
  EXPECT_EQ(alone, tokens(4, 0, 3));
  EXPECT_NE(alone, tokens(5, 0, 0));
  EXPECT_NE(alone, tokens(4, 1, 0));
  EXPECT_GT(std::set<TokenId>(alone.begin(), alone.end()).size(), 20U);
}

TEST(Sampler, ThreadsWithSeparateWorkspacesGiveTheSameBits) {
  const std::vector<float> logits = random_row(4321, 2.0F, 8);
  SamplingParams params;
  params.top_p = 0.97F;
  params.temperature = 0.8F;
  params.logprobs = 4;
  const auto run = [&](std::vector<float>* logprobs) {
    SamplerWorkspace workspace(4321);
    for (int64_t position = 0; position < 50; ++position) {
      std::vector<float> row = logits;
      const SampleOutcome outcome =
          sample_token(row, make_state(params, row.size(), 3), position, workspace).value();
      logprobs->push_back(outcome.logprob);
    }
  };
  std::vector<float> first;
  std::vector<float> second;
  std::thread other([&] { run(&second); });
  run(&first);
  other.join();
  EXPECT_EQ(first, second);
}

TEST(Sampler, LogprobsUseTheRawLogits) {
  SamplingParams params = greedy_params();
  params.logit_bias = {{1, -100.0F}, {3, 5.0F}};
  params.repetition_penalty = 2.0F;
  params.logprobs = 2;
  const std::vector<float> logits = {0.0F, 3.0F, 1.0F, 2.0F};
  const SampleOutcome outcome = sample(logits, make_state(params, 4));
  const double norm = std::log(std::exp(0.0) + std::exp(3.0) + std::exp(1.0) + std::exp(2.0));
  EXPECT_EQ(outcome.token, 3);
  EXPECT_NEAR(outcome.logprob, 2.0 - norm, 1e-6);
  ASSERT_TRUE(outcome.logprobs.has_value());
  EXPECT_EQ(outcome.logprobs->chosen.token, 3);
  EXPECT_EQ(outcome.logprobs->chosen.logprob, outcome.logprob);
  EXPECT_EQ(outcome.logprobs->rank, 2);
  ASSERT_EQ(outcome.logprobs->top.size(), 2U);
  EXPECT_EQ(outcome.logprobs->top[0].token, 1);
  EXPECT_NEAR(outcome.logprobs->top[0].logprob, 3.0 - norm, 1e-6);
  EXPECT_EQ(outcome.logprobs->top[1].token, 3);
}

TEST(Sampler, LogprobsModeSelectsRawOrProcessedValuesAndTheirScale) {
  SamplingParams params;
  params.temperature = 0.5F;
  params.top_k = 2;
  params.logit_bias = {{2, 1.5F}};
  params.logprobs = 3;
  const std::vector<float> row = {1.0F, 3.0F, 2.0F, -1.0F};
  // Processed: bias makes token 2 the most likely (3.5), top_k keeps it and token 1, temperature doubles
  // both.
  const double raw_norm = std::log(std::exp(1.0) + std::exp(3.0) + std::exp(2.0) + std::exp(-1.0));
  const double processed_norm = std::log(std::exp(7.0) + std::exp(6.0));
  struct Case {
    LogprobsMode mode;
    double of_one;
    double of_two;
    bool two_first;
  };
  for (const Case& one :
       {Case{LogprobsMode::kRawLogprobs, 3.0 - raw_norm, 2.0 - raw_norm, false},
        Case{LogprobsMode::kRawLogits, 3.0, 2.0, false},
        Case{LogprobsMode::kProcessedLogprobs, 6.0 - processed_norm, 7.0 - processed_norm, true},
        Case{LogprobsMode::kProcessedLogits, 6.0, 7.0, true}}) {
    SamplerWorkspace workspace(4, one.mode);
    std::vector<float> logits = row;
    const auto outcome = sample_token(logits, make_state(params, 4), 0, workspace);
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(logits, row);
    const PositionLogprobs& found = *outcome->logprobs;
    ASSERT_EQ(found.top.size(), 3U);
    EXPECT_EQ(found.top[0].token, one.two_first ? 2 : 1);
    EXPECT_EQ(found.top[1].token, one.two_first ? 1 : 2);
    EXPECT_NEAR(found.top[one.two_first ? 1 : 0].logprob, one.of_one, 1e-5);
    EXPECT_NEAR(found.top[one.two_first ? 0 : 1].logprob, one.of_two, 1e-5);
    EXPECT_EQ(found.top[2].logprob == -kInfinity, is_processed(one.mode));
    EXPECT_EQ(found.rank, outcome->token == found.top[0].token ? 1 : 2);
    EXPECT_EQ(outcome->logprob, found.chosen.logprob);
    // Nothing is processed for the token of a prompt.
    const auto prompt = position_logprobs(logits, 1, {0, {}}, workspace);
    EXPECT_NEAR(prompt->chosen.logprob, is_logits(one.mode) ? 3.0 : 3.0 - raw_norm, 1e-5);
  }
}

TEST(Sampler, LogprobsAreReturnedOnlyOnRequest) {
  SamplingParams params = greedy_params();
  EXPECT_FALSE(sample({0.0F, 1.0F}, make_state(params, 2)).logprobs.has_value());
  params.logprobs = 0;
  const SampleOutcome outcome = sample({0.0F, 1.0F}, make_state(params, 2));
  ASSERT_TRUE(outcome.logprobs.has_value());
  EXPECT_TRUE(outcome.logprobs->top.empty());
  EXPECT_EQ(outcome.logprobs->rank, 1);
}

TEST(Sampler, MinusOneLogprobsReturnsTheWholeVocabularyInOrder) {
  SamplingParams params = greedy_params();
  params.logprobs = -1;
  const SampleOutcome outcome = sample({1.0F, 2.0F, 1.0F}, make_state(params, 3));
  ASSERT_EQ(outcome.logprobs->top.size(), 3U);
  EXPECT_EQ(outcome.logprobs->top[0].token, 1);
  EXPECT_EQ(outcome.logprobs->top[1].token, 0);
  EXPECT_EQ(outcome.logprobs->top[2].token, 2);
}

TEST(Sampler, MinTokensMasksEndAndStopTokensUntilReached) {
  SamplingParams params = greedy_params();
  params.min_tokens = 2;
  params.stop_token_ids = {2};
  for (const bool ignore_eos : {false, true}) {
    params.ignore_eos = ignore_eos;
    SamplingState state = make_state(params, 4, 1, 0, {3});
    const std::vector<float> logits = {1.0F, 0.0F, 5.0F, 9.0F};
    EXPECT_EQ(sample(logits, state).token, 0);
    state.append(0);
    EXPECT_EQ(sample(logits, state).token, 0);
    state.append(0);
    EXPECT_EQ(sample(logits, state).token, 3);
  }
}

TEST(Sampler, IgnoreEosKeepsTheEndTokenSamplable) {
  SamplingParams params = greedy_params();
  params.ignore_eos = true;
  EXPECT_EQ(sample({1.0F, 0.0F, 9.0F}, make_state(params, 3, 1, 0, {2})).token, 2);
}

TEST(Sampler, PenaltiesApplyToTheOutputAndOnlyRepetitionToThePrompt) {
  SamplingParams params = greedy_params();
  params.presence_penalty = 2.0F;
  const std::vector<float> logits = {3.0F, 2.5F, 2.0F};
  SamplingState state(params, std::vector<TokenId>{0}, {}, 1, 0, 3);
  EXPECT_EQ(sample(logits, state).token, 0);
  state.append(0);
  EXPECT_EQ(sample(logits, state).token, 1);
  params.presence_penalty = 0.0F;
  params.repetition_penalty = 2.0F;
  EXPECT_EQ(sample(logits, SamplingState(params, std::vector<TokenId>{0}, {}, 1, 0, 3)).token, 1);
}

TEST(Sampler, AllowedTokensAndGrammarMaskBothApply) {
  SamplingParams params;
  const std::vector<float> logits = random_row(70, 1.0F, 2);
  std::vector<uint32_t> grammar(3, 0);
  for (const uint32_t token : {0U, 31U, 32U, 63U, 69U}) {
    grammar[token / 32] |= 1U << (token % 32);
  }
  grammar[2] |= 0xFFFFFFC0U;  // bits past the end of the vocabulary are ignored
  EXPECT_THAT(kept(logits, make_state(params, 70), grammar), ElementsAre(0, 31, 32, 63, 69));
  params.allowed_token_ids = {63, 5, 31, 63};
  EXPECT_THAT(kept(logits, make_state(params, 70)), ElementsAre(5, 31, 63));
  EXPECT_THAT(kept(logits, make_state(params, 70), grammar), ElementsAre(31, 63));
  EXPECT_EQ(sample(logits, make_state(params, 70), 0, grammar).logprob,
            sample(logits, make_state(params, 70), 0, grammar).logprob);
}

TEST(Sampler, ErrorsNameTheMasksThatAllowNoToken) {
  SamplingParams params;
  params.allowed_token_ids = {2};
  params.min_tokens = 1;
  std::vector<float> logits = {1.0F, 2.0F, 3.0F};
  const std::vector<float> before = logits;
  SamplerWorkspace workspace(3);
  const auto result = sample_token(logits, make_state(params, 3, 1, 0, {2}), 0, workspace);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(result.failure().param, "allowed_token_ids");
  EXPECT_THAT(result.failure().message, HasSubstr("min_tokens"));
  EXPECT_EQ(logits, before);
  const std::vector<uint32_t> nothing(1, 0);
  EXPECT_FALSE(sample_token(logits, make_state({}, 3), 0, workspace, nothing).ok());
}

TEST(Sampler, NanLogitsFailAndKeepTheWorkspaceUsable) {
  SamplerWorkspace workspace(3);
  for (const std::vector<float>& bad : {std::vector<float>{kNan, kNan, kNan},
                                        {0.0F, kNan, 1.0F},
                                        {0.0F, kInfinity, 1.0F},
                                        {-kInfinity, -kInfinity, -kInfinity}}) {
    std::vector<float> logits = bad;
    const auto result = sample_token(logits, make_state({}, 3), 0, workspace);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.failure().kind, ErrorKind::kInternal);
    EXPECT_FALSE(position_logprobs(bad, 0, {1, {}}, workspace).ok());
  }
  std::vector<float> good = {0.0F, -kInfinity, 1.0F};
  EXPECT_TRUE(sample_token(good, make_state({}, 3), 0, workspace).ok());
}

TEST(Sampler, ExtremePenaltiesAndTemperaturesStayFinite) {
  std::vector<float> logits = {3.0F, 2.0F, -1e30F, 1.0F};
  for (const float repetition : {1e-45F, 1e-38F, 1e38F}) {
    for (const float temperature : {1e-5F, 0.01F, 2.0F}) {
      SamplingParams params;
      params.repetition_penalty = repetition;
      params.temperature = temperature;
      params.top_p = 0.9F;
      SamplingState state(params, std::vector<TokenId>{0, 1, 2}, {}, 1, 0, 4);
      SamplerWorkspace workspace(4);
      const auto result = filtered_distribution(logits, state, workspace);
      ASSERT_TRUE(result.ok());
      float sum = 0.0F;
      for (const TokenProbability& entry : *result) {
        sum += entry.probability;
      }
      EXPECT_NEAR(sum, 1.0F, 1e-5F) << repetition << " " << temperature;
    }
  }
}

TEST(Sampler, RejectsMismatchedSizes) {
  SamplerWorkspace workspace(4);
  std::vector<float> logits(3, 0.0F);
  EXPECT_FALSE(sample_token(logits, make_state({}, 3), 0, workspace).ok());
  std::vector<float> four(4, 0.0F);
  EXPECT_FALSE(sample_token(four, make_state({}, 3), 0, workspace).ok());
  EXPECT_FALSE(position_logprobs(four, 4, {0, {}}, workspace).ok());
  EXPECT_FALSE(position_logprobs(four, -1, {0, {}}, workspace).ok());
}

BeamRow beam_row(std::vector<float> logits, const SamplingState& state, size_t count) {
  const std::vector<float> raw = logits;
  SamplerWorkspace workspace(static_cast<int32_t>(logits.size()));
  BeamRow row;
  EXPECT_TRUE(fill_beam_row(logits, state, count, workspace, row).ok());
  EXPECT_EQ(logits, raw) << "the row is restored";
  return row;
}

TEST(Sampler, BeamCandidatesAreTheMostProbableTokensWithTheirLogprobs) {
  const std::vector<float> logits = random_row(3000, 3.0F, 5);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(double{logit});
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  SamplingParams params;  // temperature and other sampling parameters have no effect
  params.use_beam_search = true;
  params.temperature = 0.3F;
  params.logprobs = 2;
  const BeamRow row = beam_row(logits, make_state(params, logits.size()), 9);
  ASSERT_EQ(row.candidates.size(), 9U);
  for (size_t i = 0; i < 9; ++i) {
    const BeamCandidate& candidate = row.candidates[i];
    EXPECT_EQ(candidate.token, order[i]);
    EXPECT_NEAR(candidate.logprob, double{logits[static_cast<size_t>(order[i])]} - std::log(sum), 1e-5);
    EXPECT_EQ(candidate.gain, candidate.logprob);
    EXPECT_EQ(candidate.rank, static_cast<int32_t>(i) + 1);
  }
  ASSERT_EQ(row.top.size(), 2U);
  EXPECT_EQ(row.top[1].token, order[1]);
  EXPECT_EQ(row.top[1].logprob, row.candidates[1].logprob);
}

TEST(Sampler, BeamCandidatesUseMasksAndBiasWithoutRenormalization) {
  const std::vector<float> logits = {3.0F, 2.0F, 1.0F, 0.0F, -1.0F};
  SamplingParams params;
  params.use_beam_search = true;
  params.min_tokens = 1;
  params.allowed_token_ids = {0, 1, 3, 4};
  params.logit_bias = {{4, 2.5F}};
  params.logprobs = 0;
  const SamplingState state = make_state(params, logits.size(), 1, 0, {0});
  const BeamRow row = beam_row(logits, state, 4);
  ASSERT_EQ(row.candidates.size(), 3U)
      << "token 2 is not allowed, and token 0 would end the text before min_tokens";
  const double norm = std::log(std::exp(3.0) + std::exp(2.0) + std::exp(1.0) + 1.0 + std::exp(-1.0));
  const std::vector<TokenId> tokens = {1, 4, 3};
  const std::vector<double> gains = {2.0 - norm, 1.5 - norm, 0.0 - norm};
  const std::vector<int32_t> ranks = {2, 5, 4};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(row.candidates[i].token, tokens[i]);
    EXPECT_NEAR(row.candidates[i].gain, gains[i], 1e-5);
    EXPECT_NEAR(row.candidates[i].logprob, double{logits[static_cast<size_t>(tokens[i])]} - norm, 1e-5);
    EXPECT_EQ(row.candidates[i].rank, ranks[i]);
  }
  EXPECT_TRUE(row.top.empty());
}

TEST(Sampler, RejectsBeamRowsWithNan) {
  std::vector<float> logits = {0.0F, kNan, 1.0F};
  SamplerWorkspace workspace(3);
  BeamRow row;
  const Status status = fill_beam_row(logits, make_state({}, 3), 2, workspace, row);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.failure().kind, ErrorKind::kInternal);
}

}  // namespace
}  // namespace quire
