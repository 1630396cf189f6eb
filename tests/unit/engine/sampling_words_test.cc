// Bad words and sequence breakers as tokens, and their effect, and that of other samplers, through the
// engine.
#include <algorithm>
#include <set>
#include <string>

#include "engine/word_tokenizer.h"
#include "text/tokenizer/tokenizer.h"
#include "unit/engine/engine_testing.h"

namespace quire {
namespace {

using test::Answer;

std::unique_ptr<Tokenizer> tiny_tokenizer() {
  return Tokenizer::load(test::model_path("quire-tiny"));
}

SharedSamplingWords words_of(const Tokenizer& tokenizer, const SamplingParams& params) {
  WordTokenizer words(&tokenizer, static_cast<int32_t>(tokenizer.vocab_size()));
  auto result = words.tokenize(params);
  EXPECT_TRUE(result.ok());
  return result.ok() ? *result : nullptr;
}

TEST(WordTokenizer, BreakersAreTheTokensThatContainThem) {
  const auto tokenizer = tiny_tokenizer();
  SamplingParams params;
  params.dry_multiplier = 1.0F;
  const auto words = words_of(*tokenizer, params);
  ASSERT_NE(words, nullptr);
  std::vector<TokenId> expected;
  for (TokenId id = 0; id < static_cast<TokenId>(tokenizer->vocab_size()); ++id) {
    if (tokenizer->token_bytes(id).find_first_of("\n:\"*") != std::string::npos) expected.push_back(id);
  }
  EXPECT_FALSE(expected.empty());
  EXPECT_EQ(words->breakers->tokens, expected);
  EXPECT_TRUE(words->breakers->splits.empty());
}

TEST(WordTokenizer, LongBreakersAreSplitAtTheEndOfEveryTokenThatBeginsThem) {
  const auto tokenizer = tiny_tokenizer();
  SamplingParams params;
  params.dry_multiplier = 1.0F;
  params.dry_sequence_breakers = {"the end"};
  const auto words = words_of(*tokenizer, params);
  std::set<std::string> texts;
  for (const SequenceBreakers::Split& split : words->breakers->splits) {
    const std::string head = tokenizer->token_bytes(split.head);
    std::vector<TokenId> all = {split.head};
    all.insert(all.end(), split.rest.begin(), split.rest.end());
    EXPECT_NE(tokenizer->decode(all, false).find("the end"), std::string::npos) << head;
    texts.insert(head);
  }
  EXPECT_GE(texts.size(), 3U) << "t, th, ...";
  EXPECT_TRUE(std::is_sorted(words->breakers->splits.begin(), words->breakers->splits.end(),
                             [](const auto& a, const auto& b) { return a.head < b.head; }));
}

TEST(WordTokenizer, RequestsWithTheSameBreakersShareThem) {
  const auto tokenizer = tiny_tokenizer();
  WordTokenizer words(tokenizer.get(), static_cast<int32_t>(tokenizer->vocab_size()));
  SamplingParams params;
  params.dry_multiplier = 1.0F;
  const auto first = words.tokenize(params);
  const auto second = words.tokenize(params);
  params.dry_sequence_breakers = {"x"};
  const auto third = words.tokenize(params);
  EXPECT_EQ((*first)->breakers, (*second)->breakers);
  EXPECT_NE((*first)->breakers, (*third)->breakers);
}

TEST(WordTokenizer, BadWordsHaveTokensWithAndWithoutABlank) {
  const auto tokenizer = tiny_tokenizer();
  SamplingParams params;
  params.bad_words = {"  little"};
  const auto plain = tokenizer->encode("little", false);
  const auto spaced = tokenizer->encode(" little", false);
  ASSERT_NE(plain.size(), spaced.size());
  EXPECT_EQ(words_of(*tokenizer, params)->bad_words, (std::vector<std::vector<TokenId>>{spaced, plain}));
}

TEST(WordTokenizer, RefusesBlankBadWordsAndModelsWithoutATokenizer) {
  const auto tokenizer = tiny_tokenizer();
  SamplingParams params;
  params.bad_words = {" \n"};
  WordTokenizer words(tokenizer.get(), static_cast<int32_t>(tokenizer->vocab_size()));
  EXPECT_EQ(words.tokenize(params).failure().param, "bad_words");
  params.bad_words = {"dog"};
  EXPECT_EQ(WordTokenizer(nullptr, 10).tokenize(params).failure().param, "bad_words");
  SamplingParams dry;
  dry.dry_multiplier = 1.0F;
  EXPECT_EQ(*WordTokenizer(nullptr, 10).tokenize(dry), nullptr);
}

class SamplersInTheEngine : public testing::Test {
 protected:
  SamplersInTheEngine() {
    EngineConfig config;
    config.model = test::model_path("quire-tiny");
    config.generation_config = "none";
    config.kv_cache_memory = int64_t{16} << 20;
    config.threads = 1;
    engine_ = Engine::start(config);
  }

  Answer ask(const SamplingParams& params) {
    Request request;
    request.prompt_token_ids = engine_->tokenizer()->encode("Once upon a time", true);
    request.sampling = params;
    return test::ask(*engine_, std::move(request));
  }

  static SamplingParams greedy() {
    SamplingParams params;
    params.temperature = 0.0F;
    params.max_tokens = 24;
    params.ignore_eos = true;
    return params;
  }

  std::unique_ptr<Engine> engine_;
};

TEST_F(SamplersInTheEngine, BadWordsDoNotAppear) {
  SamplingParams params = greedy();
  const std::string before = ask(params).samples[0].text;
  const size_t begin = before.find_first_not_of(" ,");
  const std::string word = before.substr(begin, before.find_first_of(" ,.", begin) - begin);
  ASSERT_FALSE(word.empty()) << before;
  params.bad_words = {word};
  EXPECT_EQ(ask(params).samples[0].text.find(" " + word + " "), std::string::npos) << word;
}

TEST_F(SamplersInTheEngine, DryAvoidsRepetitions) {
  SamplingParams params = greedy();
  params.max_tokens = 200;
  RepetitionDetection detection{20, 4, 2};
  params.repetition_detection = detection;
  params.allowed_token_ids = engine_->tokenizer()->encode(" the little dog saw a big tree", false);
  const Answer plain = ask(params);
  ASSERT_EQ(plain.samples[0].reason, FinishReason::kRepetition);
  EXPECT_EQ(std::get<std::string>(plain.samples[0].stop_reason), "repetition_detected");
  EXPECT_LT(plain.samples[0].tokens.size(), 200U);
  params.dry_multiplier = 20.0F;
  const Answer dry = ask(params);
  EXPECT_GT(dry.samples[0].tokens.size(), plain.samples[0].tokens.size());
}

TEST_F(SamplersInTheEngine, LogprobsOfGivenTokensComeWithEveryToken) {
  SamplingParams params = greedy();
  params.max_tokens = 3;
  params.logprob_token_ids = {7, 3};
  params.prompt_logprob_token_ids = {5};
  const Answer answer = ask(params);
  ASSERT_EQ(answer.samples[0].logprobs.size(), 3U);
  for (const PositionLogprobs& position : answer.samples[0].logprobs) {
    ASSERT_EQ(position.top.size(), 2U);
    EXPECT_EQ(position.top[0].token, 7);
    EXPECT_EQ(position.top[1].token, 3);
    EXPECT_TRUE(position.given);
  }
  ASSERT_FALSE(answer.prompt_logprobs.empty());
  for (const PositionLogprobs& position : answer.prompt_logprobs) {
    ASSERT_EQ(position.top.size(), 1U);
    EXPECT_EQ(position.top[0].token, 5);
  }
}

}  // namespace
}  // namespace quire
