// The sampler, compared with distributions computed by tools/make_sampling_goldens.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "sample/sampler.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr float kTiny = 1e-12F;

const json& goldens() {
  static const json document = [] {
    std::ifstream file(QUIRE_SOURCE_DIR "/tests/golden/sample/distributions.json");
    return json::parse(file);
  }();
  return document;
}

std::vector<float> row_of(const json& entry) {
  std::vector<float> logits;
  for (const json& value : goldens()["rows"][entry["row"].get<size_t>()]) {
    logits.push_back(value.get<float>() / goldens()["grid"].get<float>());
  }
  return logits;
}

SamplingParams params_of(const json& fields) {
  SamplingParams params;
  params.temperature = fields.value("temperature", 1.0F);
  params.top_p = fields.value("top_p", 1.0F);
  params.top_k = fields.value("top_k", 0);
  params.min_p = fields.value("min_p", 0.0F);
  params.repetition_penalty = fields.value("repetition_penalty", 1.0F);
  params.presence_penalty = fields.value("presence_penalty", 0.0F);
  params.frequency_penalty = fields.value("frequency_penalty", 0.0F);
  params.ignore_eos = fields.value("ignore_eos", false);
  params.min_tokens = fields.value("min_tokens", 0);
  params.max_tokens = fields.value("max_tokens", 16);
  params.stop_token_ids = fields.value("stop_token_ids", std::vector<TokenId>());
  params.allowed_token_ids = fields.value("allowed_token_ids", std::vector<TokenId>());
  params.typical_p = fields.value("typical_p", 1.0F);
  params.top_n_sigma = fields.value("top_n_sigma", 0.0F);
  params.min_keep = fields.value("min_keep", 0);
  params.dynatemp_range = fields.value("dynatemp_range", 0.0F);
  params.dynatemp_exponent = fields.value("dynatemp_exponent", 1.0F);
  params.xtc_probability = fields.value("xtc_probability", 0.0F);
  params.xtc_threshold = fields.value("xtc_threshold", 0.1F);
  params.dry_multiplier = fields.value("dry_multiplier", 0.0F);
  params.dry_base = fields.value("dry_base", 1.75F);
  params.dry_allowed_length = fields.value("dry_allowed_length", 2);
  params.dry_penalty_last_n = fields.value("dry_penalty_last_n", -1);
  params.mirostat_mode = fields.value("mirostat_mode", 0);
  params.mirostat_tau = fields.value("mirostat_tau", 5.0F);
  params.mirostat_eta = fields.value("mirostat_eta", 0.1F);
  params.samplers = fields.value("samplers", std::vector<std::string>());
  params.logit_bias = fields.value("logit_bias", std::vector<std::pair<TokenId, float>>());
  return params;
}

SharedSamplingWords words_of(const json& entry) {
  auto breakers = std::make_shared<SequenceBreakers>();
  breakers->tokens = entry.value("breaker_tokens", std::vector<TokenId>());
  for (const json& split : entry.value("breaker_splits", json::array())) {
    const auto tokens = split.get<std::vector<TokenId>>();
    breakers->splits.push_back({tokens.front(), {tokens.begin() + 1, tokens.end()}});
  }
  auto words = std::make_shared<SamplingWords>();
  words->bad_words = entry.value("bad_words", std::vector<std::vector<TokenId>>());
  words->breakers = breakers;
  return words;
}

TEST(SamplingGoldens, MatchTokensAndProbabilities) {
  ASSERT_GT(goldens()["cases"].size(), 600U);
  for (const json& entry : goldens()["cases"]) {
    SCOPED_TRACE(entry["params"].dump() + " row " + entry["row"].dump());
    std::vector<float> logits = row_of(entry);
    const std::vector<float> before = logits;
    const auto vocab_size = static_cast<int32_t>(logits.size());
    SamplerWorkspace workspace(vocab_size);
    SamplingState state(params_of(entry["params"]), entry["prompt"].get<std::vector<TokenId>>(),
                        entry["end_token_ids"].get<std::vector<TokenId>>(), 1, 0, vocab_size,
                        words_of(entry));
    const auto surprises = entry.value("surprises", std::vector<float>(entry["output"].size()));
    for (size_t i = 0; i < entry["output"].size(); ++i) {
      state.append(entry["output"][i].get<TokenId>(), surprises[i]);
    }
    auto result = filtered_distribution(logits, state, workspace);
    ASSERT_TRUE(result.ok()) << result.failure().message;
    EXPECT_EQ(logits, before);

    std::vector<TokenId> tokens;
    std::vector<float> probabilities;
    for (const TokenProbability& kept : *result) {
      if (kept.probability > kTiny) {
        tokens.push_back(kept.token);
        probabilities.push_back(kept.probability);
      }
    }
    ASSERT_EQ(tokens, entry["tokens"].get<std::vector<TokenId>>());
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto expected = entry["probabilities"][i].get<float>();
      EXPECT_NEAR(probabilities[i], expected, 1e-5F * std::max(expected, 1e-2F)) << "token " << tokens[i];
    }
    // The sampled token is one of the kept tokens.
    const std::set<TokenId> kept(tokens.begin(), tokens.end());
    for (int64_t position = 0; position < 20; ++position) {
      auto outcome = sample_token(logits, state, position, workspace);
      ASSERT_TRUE(outcome.ok());
      EXPECT_TRUE(kept.contains(outcome->token)) << outcome->token;
    }
  }
}

TEST(SamplingGoldens, MatchLogprobsRanksAndAlternatives) {
  for (const json& entry : goldens()["logprobs"]) {
    SCOPED_TRACE(entry.dump());
    const std::vector<float> logits = row_of(entry);
    SamplerWorkspace workspace(static_cast<int32_t>(logits.size()));
    const auto k = static_cast<int32_t>(entry["top"].size());
    auto result = position_logprobs(logits, entry["chosen"].get<TokenId>(), {k, {}}, workspace);
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result->chosen.token, entry["chosen"].get<TokenId>());
    EXPECT_NEAR(result->chosen.logprob, entry["logprob"].get<float>(), 2e-6F);
    EXPECT_EQ(result->rank, entry["rank"].get<int32_t>());
    ASSERT_EQ(result->top.size(), entry["top"].size());
    for (size_t i = 0; i < result->top.size(); ++i) {
      EXPECT_EQ(result->top[i].token, entry["top"][i][0].get<TokenId>());
      EXPECT_NEAR(result->top[i].logprob, entry["top"][i][1].get<float>(), 2e-6F);
    }
  }
}

}  // namespace
}  // namespace quire
