// Sampling defaults and end tokens of generation_config.json.
#include "engine/generation_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sample/validate.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kVocabulary = 100;

GenerationDefaults defaults_of(const json& file, bool use_sampling = true) {
  return read_generation_config(file, kVocabulary, use_sampling);
}

TEST(GenerationDefaults, AreRead) {
  const GenerationDefaults out = defaults_of({{"temperature", 0.5},
                                              {"top_p", 0.9},
                                              {"top_k", 20.0},
                                              {"min_p", 0.1},
                                              {"repetition_penalty", 1.1},
                                              {"eos_token_id", {2, 7}},
                                              {"do_sample", true},
                                              {"transformers_version", "5.0"}});
  EXPECT_FLOAT_EQ(out.sampling.temperature, 0.5F);
  EXPECT_FLOAT_EQ(out.sampling.top_p, 0.9F);
  EXPECT_EQ(out.sampling.top_k, 20);
  EXPECT_FLOAT_EQ(out.sampling.min_p, 0.1F);
  EXPECT_FLOAT_EQ(out.sampling.repetition_penalty, 1.1F);
  EXPECT_THAT(out.end_tokens, ElementsAre(2, 7));
  EXPECT_THAT(out.warnings, IsEmpty());
}

TEST(GenerationDefaults, ContainTheSamplersOfGgufFiles) {
  const GenerationDefaults out = defaults_of({{"typical_p", 0.9},
                                              {"xtc_probability", 0.5},
                                              {"xtc_threshold", 0.2},
                                              {"mirostat", 2},
                                              {"mirostat_tau", 4.0},
                                              {"mirostat_eta", 0.2},
                                              {"samplers", {"top_k", "temperature"}}});
  EXPECT_FLOAT_EQ(out.sampling.typical_p, 0.9F);
  EXPECT_FLOAT_EQ(out.sampling.xtc_probability, 0.5F);
  EXPECT_FLOAT_EQ(out.sampling.xtc_threshold, 0.2F);
  EXPECT_EQ(out.sampling.mirostat_mode, 2);
  EXPECT_FLOAT_EQ(out.sampling.mirostat_tau, 4.0F);
  EXPECT_FLOAT_EQ(out.sampling.mirostat_eta, 0.2F);
  EXPECT_THAT(out.sampling.samplers, ElementsAre("top_k", "temperature"));
  EXPECT_THAT(out.warnings, IsEmpty());
  const GenerationDefaults wrong = defaults_of({{"mirostat", 1}, {"samplers", {"best"}}});
  EXPECT_EQ(wrong.warnings.size(), 2U);
  EXPECT_THAT(wrong.sampling.samplers, IsEmpty());
}

TEST(GenerationDefaults, AreOverriddenByTheFlag) {
  GenerationDefaults defaults = defaults_of({{"temperature", 0.5}, {"top_k", 20}});
  override_generation_defaults(R"({"temperature": 0.7, "max_new_tokens": 9})", kVocabulary, defaults);
  EXPECT_FLOAT_EQ(defaults.sampling.temperature, 0.7F);
  EXPECT_EQ(defaults.sampling.top_k, 20);
  EXPECT_EQ(defaults.max_new_tokens, 9);
  const std::pair<const char*, const char*> wrong[] = {
      {"[]", "must be a JSON object"},
      {"{", "must be a JSON object"},
      {R"({"temperature": 5})", "temperature must be at least 0 and at most 2, but is 5."},
      {R"({"top_k": "many"})", "'top_k' must be an integer"},
      {R"({"zebra": 1})", "'zebra'"},
  };
  for (const auto& [text, problem] : wrong) {
    try {
      override_generation_defaults(text, kVocabulary, defaults);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("--override-generation-config"), HasSubstr(problem)));
    }
  }
}

TEST(GenerationDefaults, MaxNewTokensIsTheDefaultOfMaxTokens) {
  EXPECT_EQ(defaults_of({{"temperature", 0.5}}).max_new_tokens, 0);
  const GenerationDefaults out = defaults_of({{"max_new_tokens", 40}, {"max_length", 20}});
  EXPECT_EQ(out.max_new_tokens, 40);
  EXPECT_EQ(out.sampling.max_tokens, 40);
  EXPECT_THAT(out.warnings, IsEmpty());
  EXPECT_EQ(defaults_of({{"max_new_tokens", 40}}, false).max_new_tokens, 0);
}

TEST(GenerationDefaults, AreNeutralWithoutAFile) {
  const GenerationDefaults out = read_generation_config(std::nullopt, kVocabulary, true);
  EXPECT_EQ(out.sampling.top_k, SamplingParams().top_k);
  EXPECT_THAT(out.end_tokens, IsEmpty());
}

TEST(GenerationDefaults, CanBeTurnedOffExceptForTheEndTokens) {
  const GenerationDefaults out = defaults_of({{"top_k", -5}, {"eos_token_id", 3}, {"zebra", 1}}, false);
  EXPECT_EQ(out.sampling.top_k, SamplingParams().top_k);
  EXPECT_THAT(out.end_tokens, ElementsAre(3));
  EXPECT_THAT(out.warnings, IsEmpty());
}

// Every request would be refused.
TEST(GenerationDefaults, ThatARequestCouldNotHaveAreNotUsed) {
  const std::pair<json, const char*> cases[] = {
      {{{"top_k", 1000000000000}}, "'top_k' is 1000000000000, but must be between -1 and 2147483647"},
      {{{"top_k", -5}}, "'top_k' is -5, but must be between -1"},
      {{{"top_k", "many"}}, "'top_k' must be an integer"},
      {{{"top_p", 0.0}}, "top_p must be greater than 0 and at most 1, but is 0"},
      {{{"top_p", 1.5}}, "top_p must be greater than 0 and at most 1, but is 1.5"},
      {{{"temperature", 5.0}}, "temperature must be at least 0 and at most 2, but is 5"},
      {{{"temperature", 1e300}}, "'temperature' is"},
      {{{"min_p", -0.1}}, "min_p must be"},
      {{{"max_new_tokens", 0}}, "'max_new_tokens' is 0, but must be between 1 and 2147483647"},
      {{{"repetition_penalty", 0}}, "repetition_penalty must be"},
      {{{"eos_token_id", "</s>"}}, "'eos_token_id' must be"},
      {{{"eos_token_id", {2, 1.5}}}, "'eos_token_id' must be"},
  };
  for (const auto& [file, problem] : cases) {
    const GenerationDefaults out = defaults_of(file);
    EXPECT_TRUE(validate(out.sampling, kVocabulary, -1).ok()) << file;
    EXPECT_THAT(out.warnings, ElementsAre(AllOf(HasSubstr("generation_config.json: "), HasSubstr(problem),
                                                HasSubstr("; this default is not used"))))
        << file;
  }
}

TEST(GenerationDefaults, ThatAreOutOfRangeLeaveTheOthers) {
  const GenerationDefaults out = defaults_of({{"top_p", 7}, {"temperature", 0.25}, {"top_k", 9}});
  EXPECT_FLOAT_EQ(out.sampling.temperature, 0.25F);
  EXPECT_EQ(out.sampling.top_k, 9);
  EXPECT_EQ(out.warnings.size(), 1U);
}

TEST(GenerationDefaults, NamesOtherParametersInOneWarning) {
  EXPECT_THAT(
      defaults_of({{"no_repeat_ngram_size", 3}, {"suppress_tokens", {5}}, {"typical_p", 1.0}}).warnings,
      ElementsAre(HasSubstr("generation_config.json: 'no_repeat_ngram_size' and 'suppress_tokens' are")));
  EXPECT_THAT(defaults_of({{"num_beams", 4}}).warnings, ElementsAre(HasSubstr("'num_beams' is")));
}

TEST(GenerationDefaults, EndTokensBeyondTheVocabularyAreLeftOut) {
  EXPECT_THAT(defaults_of({{"eos_token_id", {2, 4294967298, -1}}}).end_tokens, ElementsAre(2));
}

}  // namespace
}  // namespace quire
