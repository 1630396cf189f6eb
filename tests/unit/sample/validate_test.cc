#include "sample/validate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace quire {
namespace {

constexpr float kUnbounded = std::numeric_limits<float>::infinity();
constexpr float kUndefined = std::numeric_limits<float>::quiet_NaN();
constexpr int32_t kVocab = 100;
constexpr int32_t kMaxLogprobs = 20;

struct Case {
  std::string param;  // the invalid field; empty if the parameters are accepted
  std::function<void(SamplingParams&)> change;
};

void check(const std::vector<Case>& cases) {
  for (size_t i = 0; i < cases.size(); ++i) {
    SamplingParams params;
    cases[i].change(params);
    const Status status = validate(params, kVocab, kMaxLogprobs);
    EXPECT_EQ(status.ok(), cases[i].param.empty()) << "case " << i << " " << status.failure().message;
    EXPECT_EQ(status.failure().param, cases[i].param) << "case " << i;
    if (!status) {
      EXPECT_EQ(status.failure().kind, ErrorKind::kInvalidArgument);
      EXPECT_THAT(status.failure().message, ::testing::HasSubstr(cases[i].param));
      EXPECT_EQ(status.failure().message.back(), '.');
    }
  }
}

TEST(Validate, AcceptsDefaultsAndBoundsOfEveryRange) {
  check({
      {"", [](SamplingParams&) {}},
      {"", [](SamplingParams& p) { p.temperature = 0.0F; }},
      {"", [](SamplingParams& p) { p.temperature = 2.0F; }},
      {"", [](SamplingParams& p) { p.top_p = 1e-6F; }},
      {"", [](SamplingParams& p) { p.top_k = -1; }},
      {"", [](SamplingParams& p) { p.top_k = 1000000; }},
      {"", [](SamplingParams& p) { p.min_p = 1.0F; }},
      {"", [](SamplingParams& p) { p.presence_penalty = p.frequency_penalty = -2.0F; }},
      {"", [](SamplingParams& p) { p.presence_penalty = p.frequency_penalty = 2.0F; }},
      {"", [](SamplingParams& p) { p.n = 16384; }},
      {"", [](SamplingParams& p) { p.max_tokens = 0; }},
      {"", [](SamplingParams& p) { p.min_tokens = p.max_tokens = 5; }},
      {"", [](SamplingParams& p) { p.logprobs = p.prompt_logprobs = kMaxLogprobs; }},
      {"", [](SamplingParams& p) { p.logprobs = 0; }},
      {"",
       [](SamplingParams& p) {
         p.logit_bias = {{0, 1000.0F}, {99, -1000.0F}};
       }},
      {"",
       [](SamplingParams& p) {
         p.allowed_token_ids = p.stop_token_ids = {0, 99};
       }},
      {"", [](SamplingParams& p) { p.seed = std::numeric_limits<int64_t>::min(); }},
  });
}

TEST(Validate, ChecksTheSamplersOfLlamaCpp) {
  check({
      {"", [](SamplingParams& p) { p.typical_p = 0.01F, p.top_n_sigma = -1.0F, p.min_keep = 1000000; }},
      {"", [](SamplingParams& p) { p.xtc_probability = p.xtc_threshold = 1.0F; }},
      {"", [](SamplingParams& p) { p.dry_multiplier = 5.0F, p.dry_base = 1.0F, p.dry_penalty_last_n = -1; }},
      {"", [](SamplingParams& p) { p.mirostat_mode = 2, p.mirostat_tau = 0.0F, p.mirostat_eta = 1.0F; }},
      {"", [](SamplingParams& p) { p.dry_sequence_breakers.clear(); }},
      {"typical_p", [](SamplingParams& p) { p.typical_p = 0.0F; }},
      {"typical_p", [](SamplingParams& p) { p.typical_p = 1.1F; }},
      {"top_n_sigma", [](SamplingParams& p) { p.top_n_sigma = kUndefined; }},
      {"top_n_sigma", [](SamplingParams& p) { p.top_n_sigma = -1.5F; }},
      {"min_keep", [](SamplingParams& p) { p.min_keep = -1; }},
      {"dynatemp_range", [](SamplingParams& p) { p.dynatemp_range = -0.1F; }},
      {"dynatemp_exponent", [](SamplingParams& p) { p.dynatemp_exponent = kUnbounded; }},
      {"xtc_probability", [](SamplingParams& p) { p.xtc_probability = 1.1F; }},
      {"xtc_threshold", [](SamplingParams& p) { p.xtc_threshold = -0.1F; }},
      {"dry_multiplier", [](SamplingParams& p) { p.dry_multiplier = -1.0F; }},
      {"dry_base", [](SamplingParams& p) { p.dry_base = 0.9F; }},
      {"dry_allowed_length", [](SamplingParams& p) { p.dry_allowed_length = -1; }},
      {"dry_penalty_last_n", [](SamplingParams& p) { p.dry_penalty_last_n = -2; }},
      {"dry_sequence_breakers", [](SamplingParams& p) { p.dry_sequence_breakers = {""}; }},
      {"dry_sequence_breakers", [](SamplingParams& p) { p.dry_sequence_breakers.assign(33, "a"); }},
      {"dry_sequence_breakers", [](SamplingParams& p) { p.dry_sequence_breakers = {std::string(41, 'a')}; }},
      {"mirostat_mode", [](SamplingParams& p) { p.mirostat_mode = 1; }},
      {"mirostat_tau", [](SamplingParams& p) { p.mirostat_tau = -1.0F; }},
      {"mirostat_eta", [](SamplingParams& p) { p.mirostat_eta = 2.0F; }},
      {"samplers",
       [](SamplingParams& p) {
         p.samplers = {"top_k", "best"};
       }},
  });
}

TEST(Validate, ChecksTextsTokenListsAndRepetitionDetection) {
  check({
      {"", [](SamplingParams& p) { p.logprob_token_ids.assign(kVocab, 5); }},
      {"",
       [](SamplingParams& p) {
         p.repetition_detection = {8, 0, 2};
       }},
      {"bad_words",
       [](SamplingParams& p) {
         p.bad_words = {"a", ""};
       }},
      {"bad_words", [](SamplingParams& p) { p.bad_words.assign(1025, "a"); }},
      {"logprob_token_ids", [](SamplingParams& p) { p.logprob_token_ids.assign(kVocab + 29, 5); }},
      {"logprob_token_ids", [](SamplingParams& p) { p.logprob_token_ids = {kVocab}; }},
      {"prompt_logprob_token_ids", [](SamplingParams& p) { p.prompt_logprob_token_ids = {-1}; }},
      {"repetition_detection",
       [](SamplingParams& p) {
         p.repetition_detection = {8, 9, 2};
       }},
      {"repetition_detection",
       [](SamplingParams& p) {
         p.repetition_detection = {8, 0, 1};
       }},
      {"repetition_detection",
       [](SamplingParams& p) {
         p.repetition_detection = {1025, 0, 2};
       }},
  });
}

TEST(Validate, BeamSearchAcceptsSupportedParameters) {
  check({
      {"", [](SamplingParams& p) { p.use_beam_search = true, p.n = 4, p.temperature = 0.0F; }},
      {"", [](SamplingParams& p) { p.use_beam_search = true, p.n = 4, p.temperature = 0.7F; }},
      {"", [](SamplingParams& p) { p.use_beam_search = true, p.n = 2, p.beam_width = 1024, p.seed = 5; }},
      {"", [](SamplingParams& p) { p.use_beam_search = true, p.length_penalty = -20.0F, p.top_k = -1; }},
      {"",
       [](SamplingParams& p) {
         p.use_beam_search = true;
         p.allowed_token_ids = p.stop_token_ids = {1, 2};
         p.logit_bias = {{1, 2.0F}};
         p.min_tokens = 3;
         p.logprobs = p.prompt_logprobs = kMaxLogprobs;
       }},
      {"", [](SamplingParams& p) { p.n = p.beam_width = 3; }},
  });
}

TEST(Validate, BeamSearchRejectsUnsupportedParameters) {
  check({
      {"best_of", [](SamplingParams& p) { p.use_beam_search = true, p.n = 4, p.beam_width = 3; }},
      {"best_of", [](SamplingParams& p) { p.use_beam_search = true, p.beam_width = 1025; }},
      {"n", [](SamplingParams& p) { p.use_beam_search = true, p.n = 1025; }},
      {"best_of", [](SamplingParams& p) { p.beam_width = -1; }},
      {"best_of", [](SamplingParams& p) { p.beam_width = 2; }},
      {"top_p", [](SamplingParams& p) { p.use_beam_search = true, p.top_p = 0.9F; }},
      {"top_k", [](SamplingParams& p) { p.use_beam_search = true, p.top_k = 5; }},
      {"min_p", [](SamplingParams& p) { p.use_beam_search = true, p.min_p = 0.1F; }},
      {"repetition_penalty",
       [](SamplingParams& p) { p.use_beam_search = true, p.repetition_penalty = 1.1F; }},
      {"presence_penalty", [](SamplingParams& p) { p.use_beam_search = true, p.presence_penalty = 0.1F; }},
      {"frequency_penalty", [](SamplingParams& p) { p.use_beam_search = true, p.frequency_penalty = 0.1F; }},
      {"typical_p", [](SamplingParams& p) { p.use_beam_search = true, p.typical_p = 0.5F; }},
      {"dry_multiplier", [](SamplingParams& p) { p.use_beam_search = true, p.dry_multiplier = 0.5F; }},
      {"mirostat_mode", [](SamplingParams& p) { p.use_beam_search = true, p.mirostat_mode = 2; }},
      {"bad_words", [](SamplingParams& p) { p.use_beam_search = true, p.bad_words = {"x"}; }},
      {"stop", [](SamplingParams& p) { p.use_beam_search = true, p.stop = {"x"}; }},
      {"max_tokens", [](SamplingParams& p) { p.use_beam_search = true, p.max_tokens = 0; }},
      {"length_penalty", [](SamplingParams& p) { p.use_beam_search = true, p.length_penalty = kUndefined; }},
      {"length_penalty", [](SamplingParams& p) { p.length_penalty = 20.5F; }},
      {"logprobs", [](SamplingParams& p) { p.use_beam_search = true, p.logprobs = kMaxLogprobs + 1; }},
  });
}

TEST(Validate, RejectsValuesOutOfRangeAndNamesTheField) {
  check({
      {"n", [](SamplingParams& p) { p.n = 0; }},
      {"n", [](SamplingParams& p) { p.n = 16385; }},
      {"n", [](SamplingParams& p) { p.n = 2, p.temperature = 0.0F; }},
      {"temperature", [](SamplingParams& p) { p.temperature = -0.1F; }},
      {"temperature", [](SamplingParams& p) { p.temperature = 2.01F; }},
      {"temperature", [](SamplingParams& p) { p.temperature = kUndefined; }},
      {"top_p", [](SamplingParams& p) { p.top_p = 0.0F; }},
      {"top_p", [](SamplingParams& p) { p.top_p = 1.001F; }},
      {"top_p", [](SamplingParams& p) { p.top_p = kUndefined; }},
      {"top_k", [](SamplingParams& p) { p.top_k = -2; }},
      {"min_p", [](SamplingParams& p) { p.min_p = -0.01F; }},
      {"min_p", [](SamplingParams& p) { p.min_p = 1.01F; }},
      {"repetition_penalty", [](SamplingParams& p) { p.repetition_penalty = 0.0F; }},
      {"repetition_penalty", [](SamplingParams& p) { p.repetition_penalty = kUnbounded; }},
      {"presence_penalty", [](SamplingParams& p) { p.presence_penalty = 2.5F; }},
      {"frequency_penalty", [](SamplingParams& p) { p.frequency_penalty = -2.5F; }},
      {"max_tokens", [](SamplingParams& p) { p.max_tokens = -1; }},
      {"min_tokens", [](SamplingParams& p) { p.min_tokens = -1; }},
      {"min_tokens", [](SamplingParams& p) { p.min_tokens = 17; }},
      {"logprobs", [](SamplingParams& p) { p.logprobs = 21; }},
      {"logprobs", [](SamplingParams& p) { p.logprobs = -1; }},
      {"logprobs", [](SamplingParams& p) { p.logprobs = -2; }},
      {"prompt_logprobs", [](SamplingParams& p) { p.prompt_logprobs = 21; }},
      {"stop",
       [](SamplingParams& p) {
         p.stop = {"a", ""};
       }},
      {"stop_token_ids", [](SamplingParams& p) { p.stop_token_ids = {100}; }},
      {"allowed_token_ids", [](SamplingParams& p) { p.allowed_token_ids = {-1}; }},
      {"logit_bias",
       [](SamplingParams& p) {
         p.logit_bias = {{100, 1.0F}};
       }},
      {"logit_bias",
       [](SamplingParams& p) {
         p.logit_bias = {{5, kUndefined}};
       }},
  });
}

TEST(Validate, AcceptsLogprobsOfTheWholeVocabularyIfTheServerAllowsIt) {
  SamplingParams params;
  params.logprobs = -1;
  EXPECT_TRUE(validate(params, kVocab, -1).ok());
  EXPECT_TRUE(validate(params, kVocab, kVocab).ok());
  params.logprobs = -2;
  EXPECT_FALSE(validate(params, kVocab, -1).ok());
}

TEST(Validate, MessagesContainTheRangeAndTheValue) {
  SamplingParams params;
  params.temperature = 2.1F;
  EXPECT_EQ(validate(params, kVocab, kMaxLogprobs).failure().message,
            "temperature must be at least 0 and at most 2, but is 2.1.");
  params.temperature = 1.0F;
  params.repetition_penalty = -0.5F;
  EXPECT_EQ(validate(params, kVocab, kMaxLogprobs).failure().message,
            "repetition_penalty must be greater than 0 and finite, but is -0.5.");
}

TEST(EffectiveSeed, IsTheSeedOfTheRequestIfItHasOne) {
  SamplingParams params;
  const uint64_t drawn = effective_seed(params, 1, 2);
  EXPECT_NE(drawn, effective_seed(params, 1, 3));
  EXPECT_NE(drawn, effective_seed(params, 2, 2));
  params.seed = -1;
  EXPECT_EQ(effective_seed(params, 1, 2), drawn);
  params.seed = 42;
  EXPECT_EQ(effective_seed(params, 1, 2), 42U);
  EXPECT_EQ(effective_seed(params, 9, 9), 42U);
}

}  // namespace
}  // namespace quire
