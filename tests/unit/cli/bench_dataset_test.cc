#include "cli/bench/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"

namespace quire::cli {
namespace {

using testing::HasSubstr;

// A file that removes itself.
class TempFile {
 public:
  TempFile(const std::string& name, const std::string& content)
      : path_(std::filesystem::temp_directory_path() / ("quire-bench-" + std::to_string(getpid()) + name)) {
    std::ofstream(path_) << content;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

int64_t count_words(const std::string& text) {
  return static_cast<int64_t>(std::count(text.begin(), text.end(), ' ')) + 1;
}

std::vector<BenchRequest> read(const TempFile& file, const DatasetOptions& options = {}) {
  return read_dataset(file.path(), options, count_words);
}

std::string failure(const TempFile& file) {
  try {
    read(file);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(BenchDataset, DrawsLengthsInTheRequestedRange) {
  for (const auto& request : random_requests(5, {32, 8, 0.0}, 1)) {
    EXPECT_EQ(request.input_len, 32);
    EXPECT_EQ(request.output_len, 8);
  }
  std::set<int32_t> seen;
  for (const auto& request : random_requests(200, {100, 10, 0.5}, 1)) {
    EXPECT_GE(request.input_len, 50);
    EXPECT_LE(request.input_len, 150);
    EXPECT_GE(request.output_len, 5);
    EXPECT_LE(request.output_len, 15);
    seen.insert(request.input_len);
  }
  EXPECT_GT(seen.size(), 50U);
  for (const auto& request : random_requests(100, {1, 1, 1.0}, 1)) EXPECT_GE(request.input_len, 1);
}

TEST(BenchDataset, DependsOnTheSeed) {
  const auto make = [](uint64_t seed) {
    auto requests = random_requests(2, {16, 4, 0.0}, 0);
    fill_tokens(requests, 0, 1000, seed);
    return requests;
  };
  EXPECT_EQ(make(1)[0].token_ids, make(1)[0].token_ids);
  EXPECT_NE(make(1)[0].token_ids, make(2)[0].token_ids);
  EXPECT_NE(make(1)[0].token_ids, make(1)[1].token_ids);
}

TEST(BenchDataset, DrawsAllowedTokensInTheRange) {
  auto requests = random_requests(4, {64, 4, 0.0}, 0);
  fill_tokens(requests, 5, 20, 3, [](TokenId id) { return id != 7; });
  for (const auto& request : requests) {
    ASSERT_EQ(request.token_ids.size(), 64U);
    for (const TokenId id : request.token_ids) {
      EXPECT_GE(id, 5);
      EXPECT_LT(id, 20);
      EXPECT_NE(id, 7);
    }
  }
  auto more = random_requests(1, {4, 4, 0.0}, 0);
  EXPECT_THROW(fill_tokens(more, 5, 5, 3), Error);
}

TEST(BenchDataset, WritesOneWordPerTokenAndKeepsTexts) {
  auto requests = random_requests(2, {12, 4, 0.0}, 0);
  requests[1].text = "given";
  fill_words(requests, 1);
  EXPECT_EQ(count_words(requests[0].text), 12);
  EXPECT_EQ(requests[1].text, "given");
}

TEST(BenchDataset, ReadsPromptsAndOutputLengthsOfShareGpt) {
  const TempFile file(".json", R"([
    {"id": "a", "conversations": [{"from": "human", "value": "one two three four"}, {"from": "gpt", "value": "1 2 3 4 5 6"}]},
    {"id": "single", "conversations": [{"from": "human", "value": "one two three four"}]},
    {"id": "short", "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "1 2 3 4 5 6"}]},
    {"id": "odd", "conversations": "none"}, 7,
    {"id": "b", "conversations": [{"from": "human", "value": "five six seven eight nine"}, {"from": "gpt", "value": "1 2 3 4"}]}])");
  const auto requests = read(file);
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].text, "one two three four");
  EXPECT_EQ(requests[0].input_len, 4);
  EXPECT_EQ(requests[0].output_len, 6);
  EXPECT_EQ(requests[1].output_len, 4);
  DatasetOptions options;
  options.num_prompts = 1;
  options.output_len = 99;
  options.force_output_len = true;
  const auto forced = read(file, options);
  ASSERT_EQ(forced.size(), 1U);
  EXPECT_EQ(forced[0].output_len, 99);
}

TEST(BenchDataset, ReadsJsonLines) {
  const TempFile file(
      ".jsonl",
      "{\"prompt\": \"hello\", \"max_tokens\": 5}\n"
      "{\"prompt_token_ids\": [1, 2, 3]}\n\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n"
      "{\"question_id\": 81, \"turns\": [\"first\", \"second\"]}\n"
      "{\"timestamp\": 0, \"input_length\": 6758, \"output_length\": 500, \"hash_ids\": [0]}\n");
  DatasetOptions options;
  options.output_len = 40;
  const auto requests = read(file, options);
  ASSERT_EQ(requests.size(), 5U);
  EXPECT_EQ(requests[0].text, "hello");
  EXPECT_EQ(requests[0].output_len, 5);
  EXPECT_THAT(requests[1].token_ids, testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(requests[1].input_len, 3);
  EXPECT_EQ(requests[1].output_len, 40);
  EXPECT_EQ(requests[2].chat, R"({"messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_EQ(requests[3].text, "first");
  EXPECT_TRUE(requests[4].random());
  EXPECT_EQ(requests[4].input_len, 6758);
  EXPECT_EQ(requests[4].output_len, 500);
}

TEST(BenchDataset, ReadsTheLengthsOfATrace) {
  const TempFile file(
      ".csv",
      "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n2023-11-16 "
      "18:15:50.9951690,396,0\r\n");
  const auto requests = read(file);
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0].input_len, 374);
  EXPECT_EQ(requests[0].output_len, 44);
  EXPECT_EQ(requests[1].output_len, 1);
}

TEST(BenchDataset, ReportsThePositionOfErrors) {
  EXPECT_THAT(failure(TempFile(".csv", "a,b\n1,2\n")), HasSubstr(".csv:1: no column 'ContextTokens'"));
  EXPECT_THAT(failure(TempFile(".csv", "ContextTokens,GeneratedTokens\n5,x\n")), HasSubstr(".csv:2"));
  EXPECT_THAT(failure(TempFile(".csv", "ContextTokens,GeneratedTokens\n5\n")), HasSubstr(".csv:2"));
  EXPECT_THAT(failure(TempFile(".csv", "ContextTokens,GeneratedTokens\n5,1e300\n")),
              HasSubstr("not a valid number of tokens"));
  EXPECT_THAT(failure(TempFile(".csv", "ContextTokens,GeneratedTokens\n")), HasSubstr("no usable request"));
  EXPECT_THAT(failure(TempFile(".json", "{")), HasSubstr("not valid JSON"));
  EXPECT_THAT(failure(TempFile(".json", "{}")), HasSubstr("must be a list"));
  EXPECT_THAT(failure(TempFile(".jsonl", "{\"prompt\": \"a\"}\nnonsense\n")), HasSubstr(".jsonl:2"));
  EXPECT_THAT(failure(TempFile(".jsonl", "{\"input_length\": -5, \"output_length\": 1}\n")),
              HasSubstr(".jsonl:1"));
  EXPECT_THROW(read_dataset("/nonexistent.jsonl", {}, count_words), Error);
}

TEST(BenchDataset, LimitsLengthsToTheModel) {
  auto requests = random_requests(3, {100, 20, 0.0}, 0);
  requests[1].output_len = 500;
  requests[2].text = "left as it is";
  EXPECT_EQ(cut_lengths(requests, 64), 2);
  EXPECT_EQ(requests[0].input_len, 44);
  EXPECT_EQ(requests[0].output_len, 20);
  EXPECT_EQ(requests[1].input_len, 1);
  EXPECT_EQ(requests[1].output_len, 63);
  EXPECT_EQ(requests[2].input_len, 100);
  EXPECT_EQ(cut_lengths(requests, 64), 0);
  auto ids = random_requests(1, {10, 4, 0.0}, 0);
  fill_tokens(ids, 0, 9, 1);
  cut_lengths(ids, 8);
  EXPECT_EQ(ids[0].token_ids.size(), 4U);
}

TEST(BenchDataset, RoundsMeans) {
  auto requests = random_requests(2, {10, 4, 0.0}, 0);
  requests[1].input_len = 13;
  EXPECT_EQ(mean_input_len(requests), 12);
  EXPECT_EQ(mean_output_len(requests), 4);
  EXPECT_EQ(mean_input_len({}), 0);
}

TEST(BenchDataset, ReadsTheAzureTrace) {
  const char* shared = std::getenv("QUIRE_SHARED");
  const std::filesystem::path root =
      shared != nullptr ? shared : std::string(QUIRE_SOURCE_DIR) + "/../shared";
  const auto path = root / "data/workloads/azure-llm-2023/AzureLLMInferenceTrace_conv.csv";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is missing, the recorded trace was not read";
  DatasetOptions options;
  options.num_prompts = 1'000'000;
  const auto requests = read_dataset(path.string(), options, count_words);
  EXPECT_EQ(requests.size(), 19366U);
  EXPECT_EQ(requests[0].input_len, 374);
  EXPECT_EQ(requests[0].output_len, 44);
}

}  // namespace
}  // namespace quire::cli
