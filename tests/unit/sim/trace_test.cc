#include "sim/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/error.h"

namespace quire::sim {
namespace {

using testing::HasSubstr;

// A file that removes itself.
class TempFile {
 public:
  TempFile(const std::string& name, const std::string& content)
      : path_(std::filesystem::temp_directory_path() / ("quire-sim-" + std::to_string(getpid()) + name)) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  ~TempFile() { std::filesystem::remove(path_); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

std::string csv_failure(const std::string& content, bool needs_times = true) {
  const TempFile file(".csv", content);
  try {
    read_csv_trace(file.path(), kAllRequests, needs_times);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string jsonl_failure(const std::string& content) {
  const TempFile file(".jsonl", content);
  try {
    read_jsonl_trace(file.path(), kAllRequests);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(TraceCsv, ReadsAzureTimesAndLengths) {
  const TempFile file(".csv",
                      "\xEF\xBB\xBFTIMESTAMP,ContextTokens,GeneratedTokens\r\n"
                      "2023-11-16 23:59:59.7500000,374,44\r\n\r\n"
                      "2023-11-17 00:00:01.2500000,396,0\r\n");
  const Trace trace = read_csv_trace(file.path(), kAllRequests, true);
  ASSERT_EQ(trace.requests.size(), 2U);
  EXPECT_TRUE(trace.has_times);
  EXPECT_EQ(trace.requests[0].arrival, 0.0);
  EXPECT_NEAR(trace.requests[1].arrival, 1.5, 1e-9);
  EXPECT_EQ(trace.requests[0].input_len, 374);
  EXPECT_EQ(trace.requests[0].output_len, 44);
  EXPECT_EQ(trace.requests[1].output_len, 1) << "an answer has a token";
  EXPECT_EQ(read_csv_trace(file.path(), 1, true).requests.size(), 1U);
}

TEST(TraceCsv, AcceptsColumnsInAnyOrderAndQuotes) {
  const TempFile file(".csv",
                      "\"note\",GeneratedTokens,ContextTokens,TIMESTAMP\n"
                      "\"a, \"\"b\"\"\",5,7,2024-05-10T00:00:02.5+00:00\n"
                      "plain,6,8,2024-05-10 00:00:01Z\n");
  const Trace trace = read_csv_trace(file.path(), kAllRequests, true);
  ASSERT_EQ(trace.requests.size(), 2U);
  EXPECT_EQ(trace.requests[0].input_len, 8) << "the earlier one comes first";
  EXPECT_NEAR(trace.requests[1].arrival, 1.5, 1e-9);
  EXPECT_EQ(trace.requests[1].output_len, 5);
}

TEST(TraceCsv, AcceptsSecondsAndOptionalTimes) {
  const TempFile seconds(".csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n10.5,1,1\n12,1,1\n");
  EXPECT_NEAR(read_csv_trace(seconds.path(), kAllRequests, true).requests[1].arrival, 1.5, 1e-12);
  const TempFile without(".csv", "ContextTokens,GeneratedTokens\n3,4\n");
  EXPECT_FALSE(read_csv_trace(without.path(), kAllRequests, false).has_times);
}

TEST(TraceCsv, ReadsAdapters) {
  const TempFile file(".csv",
                      "ContextTokens,adapter,GeneratedTokens\n"
                      "8,sql,1\n8,,1\n8,chat,1\n8,sql,1\n");
  const Trace trace = read_csv_trace(file.path(), kAllRequests, false);
  EXPECT_THAT(trace.adapters, testing::ElementsAre("sql", "chat"));
  const auto adapter = [](const TraceRequest& request) { return request.adapter; };
  EXPECT_THAT(std::vector({adapter(trace.requests[0]), adapter(trace.requests[1]), adapter(trace.requests[2]),
                           adapter(trace.requests[3])}),
              testing::ElementsAre(1, 0, 2, 1));
}

TEST(TraceCsv, ReportsFileLineAndCell) {
  const std::string header = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
  EXPECT_THAT(csv_failure(""), HasSubstr("empty file"));
  EXPECT_THAT(csv_failure("TIMESTAMP,ContextTokens\n"), HasSubstr(".csv:1: no column 'GeneratedTokens'"));
  EXPECT_THAT(csv_failure("ContextTokens,GeneratedTokens\n1,1\n"), HasSubstr("no column 'TIMESTAMP'"));
  EXPECT_THAT(csv_failure(header), HasSubstr("contains no usable request"));
  EXPECT_THAT(csv_failure(header + "1,2\n"), HasSubstr(".csv:2: expected 3 cells as in the header, found 2"));
  EXPECT_THAT(csv_failure(header + "1,2,3\n1,x,3\n"),
              HasSubstr(".csv:3: 'ContextTokens' must be a number, not 'x'"));
  EXPECT_THAT(csv_failure(header + "1,-4,3\n"), HasSubstr("not a valid number of tokens"));
  EXPECT_THAT(csv_failure(header + "1,nan,3\n"), HasSubstr("must be a number"));
  EXPECT_THAT(csv_failure(header + "1,1e300,3\n"), HasSubstr("not a valid number of tokens"));
  EXPECT_THAT(csv_failure(header + "yesterday,4,3\n"), HasSubstr("'yesterday' is not a valid time"));
  EXPECT_THAT(csv_failure(header + "2023-02-30 10:00:00,4,3\n"), HasSubstr("is not a valid time"));
  EXPECT_THAT(csv_failure(header + "2023-02-03 10:00:00+02:00,4,3\n"), HasSubstr("is not a valid time"));
  EXPECT_THAT(csv_failure(header + "2023-02-03 10:00:00.,4,3\n"), HasSubstr("is not a valid time"));
  EXPECT_THAT(csv_failure(header + "\"1,4,3\n"), HasSubstr("unterminated quoted cell"));
  EXPECT_THROW(read_csv_trace("/nonexistent.csv", kAllRequests, true), Error);
}

TEST(TraceJsonl, ReadsAdapters) {
  const TempFile file(".jsonl",
                      "{\"input_length\": 5, \"output_length\": 5, \"adapter\": \"sql\"}\n"
                      "{\"input_length\": 5, \"output_length\": 5}\n"
                      "{\"input_length\": 5, \"output_length\": 5, \"adapter\": null}\n");
  const Trace trace = read_jsonl_trace(file.path(), kAllRequests);
  EXPECT_THAT(trace.adapters, testing::ElementsAre("sql"));
  EXPECT_EQ(trace.requests[0].adapter, 1);
  EXPECT_EQ(trace.requests[1].adapter, 0);
  EXPECT_EQ(trace.requests[2].adapter, 0);
  EXPECT_THAT(jsonl_failure("{\"input_length\": 5, \"output_length\": 5, \"adapter\": 7}\n"),
              HasSubstr(".jsonl:1: 'adapter' must be a string"));
}

TEST(TraceJsonl, ReadsMooncakeTimesLengthsAndHashes) {
  const TempFile file(
      ".jsonl",
      "{\"timestamp\": 0, \"input_length\": 513, \"output_length\": 5, \"hash_ids\": [7, 8]}\n\n"
      "{\"timestamp\": 1500, \"input_length\": 512, \"output_length\": 6, \"hash_ids\": [7]}\n");
  const Trace trace = read_jsonl_trace(file.path(), kAllRequests);
  ASSERT_EQ(trace.requests.size(), 2U);
  EXPECT_NEAR(trace.requests[1].arrival, 1.5, 1e-12);
  EXPECT_THAT(trace.hash_ids, testing::ElementsAre(7, 8, 7));
  EXPECT_EQ(trace.requests[1].first_hash, 2U);
  EXPECT_EQ(trace.requests[1].num_hashes, 1U);
}

TEST(TraceJsonl, ReportsFileAndLine) {
  const std::string good =
      "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 5, \"hash_ids\": [1]}\n";
  EXPECT_THAT(jsonl_failure("[]\n"), HasSubstr(".jsonl:1: must be a JSON object"));
  EXPECT_THAT(jsonl_failure(good + "{\n"), HasSubstr(".jsonl:2"));
  EXPECT_THAT(jsonl_failure("{\"input_length\": \"5\", \"output_length\": 5}\n"),
              HasSubstr("'input_length'"));
  EXPECT_THAT(jsonl_failure("{\"input_length\": 513, \"output_length\": 5, \"hash_ids\": [1]}\n"),
              HasSubstr("'hash_ids' has 1 entries, 513 tokens have 2 blocks of 512"));
  EXPECT_THAT(jsonl_failure("{\"input_length\": 5, \"output_length\": 5, \"hash_ids\": [-1]}\n"),
              HasSubstr("integers from 0"));
  EXPECT_THAT(jsonl_failure(good + "{\"input_length\": 5, \"output_length\": 5}\n"),
              HasSubstr(".jsonl:2: 'timestamp' must be present in all lines or in none"));
}

TEST(TracePrompts, SharesTokensExactlyForEqualHashes) {
  const TempFile file(
      ".jsonl",
      "{\"input_length\": 600, \"output_length\": 5, \"hash_ids\": [7, 8]}\n"
      "{\"input_length\": 1100, \"output_length\": 6, \"hash_ids\": [7, 9, 10]}\n"
      "{\"input_length\": 40, \"output_length\": 6}\n{\"input_length\": 40, \"output_length\": 6}\n");
  const Trace trace = read_jsonl_trace(file.path(), kAllRequests);
  std::vector<std::vector<TokenId>> prompts(4);
  for (size_t i = 0; i < 4; ++i) fill_prompt(trace, static_cast<int64_t>(i), prompts[i]);
  ASSERT_EQ(prompts[0].size(), 600U);
  ASSERT_EQ(prompts[1].size(), 1100U);
  EXPECT_TRUE(std::equal(prompts[0].begin(), prompts[0].begin() + 512, prompts[1].begin()));
  EXPECT_NE(prompts[0][512], prompts[1][512]);
  EXPECT_NE(prompts[2][0], prompts[3][0]) << "prompts without hashes share nothing";
}

TEST(TraceLengths, AreLimitedToLeaveRoomForAPrompt) {
  Trace trace;
  trace.requests = {{0.0, 100, 20, 0, 0}, {0.0, 100, 500, 0, 1}, {0.0, 10, 10, 0, 0}};
  EXPECT_EQ(cut_lengths(trace, 64), 2);
  EXPECT_EQ(trace.requests[0].input_len, 44);
  EXPECT_EQ(trace.requests[1].input_len, 1);
  EXPECT_EQ(trace.requests[1].output_len, 63);
  EXPECT_EQ(trace.requests[2].input_len, 10);
  EXPECT_EQ(trace.longest(), 64);
  EXPECT_THROW(cut_lengths(trace, 1), Error);
}

TEST(TraceDrawn, HasTheRequestedDistributionAndIsReproducible) {
  Distribution distribution;
  distribution.num_requests = 200'000;
  distribution.input_mean = 1000.0;
  distribution.input_cv = 1.0;
  distribution.output_mean = 200.0;
  distribution.output_cv = 0.0;
  const Trace trace = draw_trace(distribution, 3);
  double sum = 0.0, squares = 0.0;
  for (const TraceRequest& request : trace.requests) {
    sum += request.input_len;
    squares += static_cast<double>(request.input_len) * request.input_len;
    ASSERT_EQ(request.output_len, 200);
  }
  const double mean = sum / 200'000.0;
  EXPECT_NEAR(mean, 1000.0, 15.0);
  EXPECT_NEAR(std::sqrt(squares / 200'000.0 - mean * mean) / mean, 1.0, 0.05);
  EXPECT_EQ(draw_trace(distribution, 3).requests[7].input_len, trace.requests[7].input_len);
  EXPECT_NE(draw_trace(distribution, 4).requests[7].input_len, trace.requests[7].input_len);
}

TEST(TraceArrivals, HaveTheRequestedRateAndSpeed) {
  Distribution distribution;
  distribution.num_requests = 100'000;
  Trace trace = draw_trace(distribution, 1);
  set_arrivals(trace, 4.0, 1.0, 1);
  EXPECT_EQ(trace.requests.front().arrival, 0.0);
  EXPECT_NEAR(trace.duration(), 25'000.0, 500.0);
  speed_up(trace, 10.0);
  EXPECT_NEAR(trace.duration(), 2'500.0, 50.0);
  set_arrivals(trace, std::numeric_limits<double>::infinity(), 1.0, 1);
  EXPECT_EQ(trace.duration(), 0.0);
  EXPECT_THROW(set_arrivals(trace, 0.0, 1.0, 1), Error);
}

TEST(TraceShared, ReadsTheRecordedTraces) {
  const char* shared = std::getenv("QUIRE_SHARED");
  const std::filesystem::path root =
      (shared != nullptr ? shared : std::string(QUIRE_SOURCE_DIR) + "/../shared") + "/data/workloads";
  const auto azure = root / "azure-llm-2023/AzureLLMInferenceTrace_conv.csv";
  const auto mooncake = root / "mooncake/conversation_trace.jsonl";
  if (!std::filesystem::exists(azure) || !std::filesystem::exists(mooncake))
    GTEST_SKIP() << root << " lacks the traces: they were not read";
  const Trace a = read_csv_trace(azure.string(), kAllRequests, true);
  EXPECT_EQ(a.requests.size(), 19366U);
  EXPECT_NEAR(a.duration(), 3501.722, 0.001);
  EXPECT_EQ(a.longest(), 14089);
  const Trace m = read_jsonl_trace(mooncake.string(), kAllRequests);
  EXPECT_EQ(m.requests.size(), 12031U);
  EXPECT_NEAR(m.duration(), 3536.999, 0.001);
  EXPECT_EQ(m.hash_ids.size(), 288500U);
}

}  // namespace
}  // namespace quire::sim
