#include "cli/bench/load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/error.h"
#include "bench_test_server.h"

namespace quire::cli {
namespace {

using testing::HasSubstr;

constexpr double kAtOnce = std::numeric_limits<double>::infinity();

std::string chunk(const std::string& data) {
  char size[16];
  std::snprintf(size, sizeof(size), "%zx\r\n", data.size());
  return size + data + "\r\n";
}

std::string event(const std::string& json) {
  return chunk("data: " + json + "\n\n");
}

const std::string kStreamHead =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

TestServer::Answer three_tokens() {
  return {
      {kStreamHead, event(R"({"choices":[{"index":0,"text":"a","finish_reason":null}]})"),
       event(R"({"choices":[{"index":0,"text":"b","finish_reason":null}]})"),
       event(R"({"choices":[{"index":0,"text":"c","finish_reason":"length"}]})"),
       event(
           R"({"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":2}}})"),
       event("[DONE]") + "0\r\n\r\n"},
      true};
}

LoadResult run(const TestServer& server, size_t count, const LoadOptions& options = {},
               double rate = kAtOnce) {
  const Url url = parse_url(server.base_url());
  const std::vector<std::string> requests(count, request_text(url, "POST", "/v1/completions", {}, "{}"));
  return run_load(Address(url), requests, arrival_times(count, rate, 1.0, 1), options);
}

TEST(BenchArrivals, SendsAllAtOnceWithAnInfiniteRate) {
  EXPECT_THAT(arrival_times(3, kAtOnce, 1.0, 0), testing::Each(0.0));
  EXPECT_TRUE(arrival_times(0, 5.0, 1.0, 0).empty());
}

TEST(BenchArrivals, MatchesTheRateWithAscendingTimes) {
  const auto times = arrival_times(1000, 50.0, 1.0, 3);
  EXPECT_NEAR(times.back(), 20.0, 1e-9);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_EQ(times, arrival_times(1000, 50.0, 1.0, 3));
  EXPECT_NE(times, arrival_times(1000, 50.0, 1.0, 4));
}

TEST(BenchArrivals, UsesBurstinessAsTheShapeOfTheGaps) {
  // The squared coefficient of variation of a gamma distribution is 1 / shape.
  for (const double burstiness : {0.25, 1.0, 4.0}) {
    const auto times = arrival_times(20000, 1.0, burstiness, 5);
    double sum = 0.0, squares = 0.0, last = 0.0;
    for (const double time : times) {
      sum += time - last;
      squares += (time - last) * (time - last);
      last = time;
    }
    const double mean = sum / static_cast<double>(times.size());
    const double variation = squares / static_cast<double>(times.size()) / (mean * mean) - 1.0;
    EXPECT_NEAR(variation * burstiness, 1.0, 0.1) << burstiness;
  }
}

TEST(BenchStream, CountsNoTokenForRoleAndEndChunks) {
  RequestRecord record;
  StreamRecorder recorder(record);
  const auto feed = [&](const std::string& json, double now) {
    recorder.feed("data: " + json + "\n\n", now);
  };
  feed(R"({"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]})", 1.0);
  feed(R"({"choices":[{"delta":{"role":"assistant","content":null},"finish_reason":null}]})", 1.5);
  feed(R"({"choices":[{"delta":{"reasoning_content":"hm"},"finish_reason":null}]})", 2.0);
  feed(R"({"choices":[{"delta":{"content":"Hi"},"finish_reason":null}],"error":null,"usage":null})", 3.0);
  feed(R"({"choices":[{"delta":{},"finish_reason":"stop"}]})", 9.0);
  feed("[DONE]", 9.5);
  recorder.finish(200, "");
  EXPECT_EQ(record.error, "");
  EXPECT_THAT(record.chunk_times, testing::ElementsAre(2.0, 3.0));
  EXPECT_EQ(record.output_tokens, 2);
}

TEST(BenchStream, CountsEmptyChunksExceptTheLast) {
  RequestRecord record;
  StreamRecorder recorder(record);
  recorder.feed("data: {\"choices\":[{\"text\":\"\",\"finish_reason\":null}]}\n\n", 1.0);
  recorder.feed("data: {\"choices\":[{\"text\":\"x\",\"finish_reason\":null}]}\n\n", 2.0);
  recorder.feed("data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"stop\"}]}\n\n", 3.0);
  recorder.finish(200, "");
  EXPECT_THAT(record.chunk_times, testing::ElementsAre(1.0, 2.0));
}

TEST(BenchStream, ReportsErrors) {
  const auto outcome = [](int status, const std::string& bytes) {
    RequestRecord record;
    StreamRecorder recorder(record);
    if (status == 200) recorder.feed(bytes, 1.0);
    recorder.finish(status, bytes);
    return record.error;
  };
  EXPECT_EQ(outcome(200, "data: {\"error\":{\"message\":\"out of luck\"}}\n\n"), "out of luck");
  EXPECT_EQ(outcome(400, R"({"error":{"message":"bad field","code":400}})"), "HTTP 400: bad field");
  EXPECT_EQ(outcome(404, R"({"message":"no such thing"})"), "HTTP 404: no such thing");
  EXPECT_EQ(outcome(500, R"({"error":"plain"})"), "HTTP 500: plain");
  EXPECT_EQ(outcome(502, "<html>"), "HTTP 502: <html>");
  EXPECT_THAT(outcome(200, R"({"choices":[{"text":"whole"}]})"), HasSubstr("expected an event stream"));
  EXPECT_THAT(outcome(200, "data: 7\n\n"), HasSubstr("not a JSON object"));
  for (const char* odd :
       {R"({"choices":7})", R"({"choices":[7]})", R"({"choices":[{"delta":7}]})", R"({"usage":[1]})"}) {
    EXPECT_NE(outcome(200, std::string("data: ") + odd + "\n\n"), "") << odd;
  }
}

TEST(BenchLoad, MeasuresStreamedResponses) {
  TestServer server([](const std::string&, int) { return three_tokens(); });
  const LoadResult result = run(server, 4);
  ASSERT_EQ(result.records.size(), 4U);
  for (const auto& record : result.records) {
    EXPECT_EQ(record.error, "");
    EXPECT_EQ(record.prompt_tokens, 7);
    EXPECT_EQ(record.cached_tokens, 2);
    EXPECT_EQ(record.output_tokens, 3);
    ASSERT_EQ(record.chunk_times.size(), 3U);
    EXPECT_GT(record.ttft(), 0.0);
    EXPECT_LE(record.chunk_times[0], record.chunk_times[2]);
  }
  EXPECT_EQ(result.peak_concurrency, 4);
  EXPECT_GE(result.elapsed_s, result.records[3].e2e());
}

TEST(BenchLoad, LimitsConcurrencyAndReusesConnections) {
  TestServer server([](const std::string&, int) { return three_tokens(); });
  LoadOptions options;
  options.max_concurrency = 1;
  LoadProgress last;
  const Url url = parse_url(server.base_url());
  const std::vector<std::string> requests(6, request_text(url, "POST", "/v1/completions", {}, "{}"));
  const LoadResult result = run_load(Address(url), requests, arrival_times(6, kAtOnce, 1.0, 1), options,
                                     [&](const LoadProgress& progress) {
                                       EXPECT_GE(progress.num_tokens, last.num_tokens);
                                       last = progress;
                                     });
  EXPECT_EQ(result.peak_concurrency, 1);
  EXPECT_EQ(server.num_connections(), 1);
  EXPECT_EQ(last.num_done, 6U);
  EXPECT_EQ(last.num_tokens, 18);
  for (const auto& record : result.records) EXPECT_EQ(record.error, "");
}

TEST(BenchLoad, ReconnectsAfterTheServerClosedTheConnection) {
  // The server closes the connection without announcing it in the response.
  TestServer server([](const std::string&, int) {
    TestServer::Answer answer = three_tokens();
    answer.keep_open = false;
    return answer;
  });
  LoadOptions options;
  options.max_concurrency = 1;
  const LoadResult result = run(server, 3, options);
  for (const auto& record : result.records) EXPECT_EQ(record.error, "");
  EXPECT_EQ(server.num_connections(), 3);
}

TEST(BenchLoad, FollowsTheArrivalTimes) {
  TestServer server([](const std::string&, int) { return three_tokens(); });
  const LoadResult result = run(server, 10, {}, 50.0);
  // The last request starts at its time or, on a busy machine, after it.
  EXPECT_GE(result.elapsed_s, arrival_times(10, 50.0, 1.0, 1).back() + result.records.back().e2e());
}

TEST(BenchLoad, ContinuesAfterAFailure) {
  TestServer server([](const std::string&, int number) -> TestServer::Answer {
    if (number == 1)
      return {{"HTTP/1.1 503 Service Unavailable\r\nContent-Length: "
               "32\r\n\r\n{\"error\":{\"message\":\"queue full\"}}"},
              true};
    if (number == 2)
      return {{kStreamHead, event(R"({"choices":[{"text":"a","finish_reason":null}]})")}, false};
    if (number == 3) return {{"nonsense\r\n"}, false};
    return three_tokens();
  });
  LoadOptions options;
  options.max_concurrency = 1;
  const LoadResult result = run(server, 5, options);
  EXPECT_EQ(result.records[0].error, "");
  EXPECT_THAT(result.records[1].error, HasSubstr("503"));
  EXPECT_THAT(result.records[2].error, HasSubstr("before the end"));
  EXPECT_THAT(result.records[3].error, HasSubstr("HTTP"));
  EXPECT_EQ(result.records[4].error, "");
}

TEST(BenchLoad, TimesOutOnASilentServer) {
  TestServer server([](const std::string&, int) -> TestServer::Answer { return {{}, true}; });
  LoadOptions options;
  options.timeout_s = 0.05;
  const LoadResult result = run(server, 2, options);
  for (const auto& record : result.records) EXPECT_THAT(record.error, HasSubstr("no data for"));
}

TEST(BenchLoad, FailsEachRequestWithoutAServer) {
  Url url;
  {
    TestServer server([](const std::string&, int) -> TestServer::Answer { return {}; });
    url = parse_url(server.base_url());
  }
  const LoadResult result = run_load(Address(url), {request_text(url, "POST", "/", {}, "{}")}, {0.0}, {});
  EXPECT_NE(result.records[0].error, "");
}

}  // namespace
}  // namespace quire::cli
