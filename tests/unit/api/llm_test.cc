// The public C++ library, with the embedded model.
#include "quire/llm.h"

#include <gtest/gtest.h>

#include <fstream>
#include <future>
#include <optional>
#include <string>

namespace quire {
namespace {

EngineOptions small() {
  return {.kv_cache_memory = 32 << 20, .threads = 1};
}

int64_t peak_memory_bytes() {
  std::ifstream status("/proc/self/status");
  std::string name;
  for (int64_t kilobytes = 0; status >> name; status.ignore(256, '\n')) {
    if (name == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

TEST(Llm, GeneratesInTheOrderOfThePrompts) {
  LLM llm(small());
  const auto outputs =
      llm.generate({"Once upon a time", "The dog", "A cat"}, {.max_tokens = 12, .temperature = 0});
  ASSERT_EQ(outputs.size(), 3U);
  EXPECT_EQ(outputs[1].prompt, "The dog");
  for (const auto& output : outputs) {
    ASSERT_EQ(output.outputs.size(), 1U);
    EXPECT_FALSE(output.outputs[0].text.empty());
    EXPECT_FALSE(output.outputs[0].finish_reason.empty());
    EXPECT_EQ(output.prompt_token_ids, llm.tokenize(output.prompt));
    EXPECT_GT(output.times.total, 0.0);
  }
  const auto alone = llm.generate({"A cat"}, {.max_tokens = 12, .temperature = 0});
  EXPECT_EQ(alone[0].outputs[0].token_ids, outputs[2].outputs[0].token_ids);
}

TEST(Llm, StreamsTheTextOfGenerate) {
  LLM llm(small());
  const SamplingParams params{.max_tokens = 20, .temperature = 0};
  const std::string whole = llm.generate({"Once upon a time"}, params)[0].outputs[0].text;
  Stream stream = llm.generate_stream("Once upon a time", params);
  std::string text;
  int pieces = 0;
  while (const auto piece = stream.next()) {
    text += *piece;
    ++pieces;
  }
  EXPECT_EQ(text, whole);
  EXPECT_GE(pieces, 1);
  EXPECT_EQ(stream.completion().text, whole);
  EXPECT_GT(stream.times().first_token, 0.0);
  EXPECT_GE(stream.times().total, stream.times().first_token);
  EXPECT_FALSE(stream.next().has_value());
}

TEST(Llm, AStreamMayOutliveItsModel) {
  const SamplingParams params{.max_tokens = 40, .temperature = 0, .ignore_eos = true};
  std::optional<LLM> llm(small());
  const std::string whole = llm->generate({"Once upon a time"}, params)[0].outputs[0].text;
  Stream read = llm->generate_stream("Once upon a time", params);
  Stream cancelled = llm->generate_stream("Once upon a time", params);
  Stream dropped = llm->generate_stream("Once upon a time", params);
  llm.reset();
  std::string text;
  while (const auto piece = read.next()) text += *piece;
  EXPECT_EQ(text, whole);
  cancelled.cancel();
  while (cancelled.next()) {
  }
  Stream moved = std::move(dropped);
}

TEST(Llm, RunsNoPromptIfOneIsRejected) {
  LLM llm(small());
  std::vector<SamplingParams> params(3, SamplingParams{.max_tokens = 500, .ignore_eos = true});
  params[1].top_p = 2.0F;
  EXPECT_THROW(llm.generate({"Once", "upon", "a time"}, params), Error);
  params[1].top_p = 1.0F;
  EXPECT_THROW(llm.generate({"Once", std::vector<TokenId>(100000, 5), "a time"}, params), Error);
  EXPECT_EQ(llm.statistics().num_steps, 0);
}

TEST(Llm, AllocatesNothingForSamplesThatAreRejected) {
  LLM llm(small());
  const int64_t before = peak_memory_bytes();
  EXPECT_THROW(llm.generate({"Once"}, SamplingParams{.n = 30'000'000}), Error);
  EXPECT_THROW(
      llm.generate({"Once"}, SamplingParams{.n = 2, .use_beam_search = true, .beam_width = 2'000'000'000}),
      Error);
  EXPECT_THROW(llm.generate({"Once"}, SamplingParams{.logprobs = 2'000'000'000}), Error);
  EXPECT_THROW(llm.generate(std::vector<Prompt>(64, "Once"), SamplingParams{.n = 16'000}), Error);
  EXPECT_LT(peak_memory_bytes() - before, 8 << 20);
}

TEST(Llm, HasNoLimitOfWaitingRequests) {
  EngineOptions options = small();
  options.max_num_queued_requests = 1;
  options.max_num_seqs = 1;
  LLM llm(options);
  const auto outputs = llm.generate(std::vector<Prompt>(5, "Once"), {.max_tokens = 2});
  EXPECT_EQ(outputs.size(), 5U);
}

TEST(Llm, StreamsChatWithTheTemplate) {
  LLM llm(small());
  const std::vector<ChatMessage> messages = {{"user", "Hello"}};
  const SamplingParams params{.max_tokens = 10, .temperature = 0};
  const Generation whole = llm.chat(messages, params);
  EXPECT_EQ(whole.prompt_token_ids, llm.chat_prompt(messages));
  Stream stream = llm.chat_stream(messages, params);
  std::string text;
  while (const auto piece = stream.next()) text += *piece;
  EXPECT_EQ(text, whole.outputs[0].text);
}

TEST(Llm, EndsTheRequestOfADestroyedOrCancelledStream) {
  LLM llm(small());
  SamplingParams params{.max_tokens = 900, .temperature = 0};
  params.ignore_eos = true;
  { Stream dropped = llm.generate_stream("Once upon a time", params); }
  Stream cancelled = llm.generate_stream("Once upon a time", params);
  cancelled.next();
  cancelled.cancel();
  while (cancelled.next()) {
  }
  EXPECT_EQ(cancelled.completion().finish_reason, "abort");
  llm.generate({"One"}, {.max_tokens = 2});
  EXPECT_EQ(llm.statistics().num_free_blocks, llm.statistics().num_blocks);
}

TEST(Llm, AcceptsTokenIdsAndParametersPerPrompt) {
  LLM llm(small());
  std::vector<SamplingParams> params = {{.max_tokens = 3, .temperature = 0}, {.n = 2, .max_tokens = 5}};
  params[1].seed = 5;
  params[1].logprobs = 2;
  const auto outputs = llm.generate({Prompt(llm.tokenize("The dog")), Prompt("A cat")}, params);
  EXPECT_TRUE(outputs[0].prompt.empty());
  EXPECT_LE(outputs[0].outputs[0].token_ids.size(), 3U);
  ASSERT_EQ(outputs[1].outputs.size(), 2U);
  const Completion& sample = outputs[1].outputs[1];
  EXPECT_EQ(sample.index, 1);
  ASSERT_EQ(sample.logprobs.size(), sample.token_ids.size());
  EXPECT_EQ(sample.logprobs[0][0].token, sample.token_ids[0]);
}

TEST(Llm, ThrowsErrorsWithAMessage) {
  LLM llm(small());
  const auto message = [&](const std::vector<Prompt>& prompts, const SamplingParams& params) -> std::string {
    try {
      llm.generate(prompts, params);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message({"good", Prompt(std::vector<TokenId>{-5})}, {}).find("prompt 1"), std::string::npos);
  EXPECT_NE(message({"good"}, {.temperature = -1}).find("temperature"), std::string::npos);
  EXPECT_THROW(llm.generate({"a", "b"}, std::span<const SamplingParams>()), Error);
  EXPECT_THROW(LLM({.model = "/nowhere"}), Error);
  EXPECT_EQ(llm.generate({"still works"}, {.max_tokens = 1}).size(), 1U);
}

TEST(Llm, BatchesCallsOfSeveralThreads) {
  LLM llm(small());
  const SamplingParams params{.max_tokens = 16, .temperature = 0};
  const auto expected = llm.generate({"The dog"}, params)[0].outputs[0].text;
  std::vector<std::future<std::string>> texts;
  for (int i = 0; i < 8; ++i) {
    texts.push_back(
        std::async(std::launch::async, [&] { return llm.generate({"The dog"}, params)[0].outputs[0].text; }));
  }
  for (auto& text : texts) EXPECT_EQ(text.get(), expected);
}

TEST(Llm, ReturnsNothingWithoutPrompts) {
  LLM llm(small());
  EXPECT_TRUE(llm.generate({}).empty());
}

TEST(Llm, TokenizesAndDetokenizes) {
  LLM llm(small());
  const std::string text = "Tom said: \"I like 3 apples.\"";
  EXPECT_EQ(llm.detokenize(llm.tokenize(text)), text);
}

}  // namespace
}  // namespace quire
