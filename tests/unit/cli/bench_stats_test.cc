#include "cli/bench/stats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "base/error.h"

namespace quire::cli {
namespace {

using testing::HasSubstr;

RequestRecord record(double begin, std::vector<double> times, int64_t prompt_tokens = 10) {
  RequestRecord r;
  r.begin = begin;
  r.chunk_tokens.assign(times.size(), 1);
  r.output_tokens = static_cast<int64_t>(times.size());
  r.chunk_times = std::move(times);
  r.prompt_tokens = prompt_tokens;
  return r;
}

TEST(BenchStats, InterpolatesPercentilesLikeNumpy) {
  const std::vector<double> values = {1, 2, 3, 4};
  EXPECT_DOUBLE_EQ(percentile(values, 0), 1.0);
  EXPECT_DOUBLE_EQ(percentile(values, 50), 2.5);
  EXPECT_DOUBLE_EQ(percentile(values, 90), 3.7);
  EXPECT_DOUBLE_EQ(percentile(values, 99), 3.97);
  EXPECT_DOUBLE_EQ(percentile(values, 100), 4.0);
  EXPECT_DOUBLE_EQ(percentile({7.0}, 99), 7.0);
  EXPECT_DOUBLE_EQ(percentile({}, 50), 0.0);
}

TEST(BenchStats, SummarizesInMillisecondsAndSortsItsInput) {
  const LatencySummary s = summarize({0.004, 0.001, 0.003, 0.002});
  EXPECT_DOUBLE_EQ(s.mean, 2.5);
  EXPECT_DOUBLE_EQ(s.p50, 2.5);
  EXPECT_DOUBLE_EQ(s.p90, 3.7);
}

TEST(BenchStats, ComputesLatenciesLikeVllm) {
  const RequestRecord r = record(10.0, {10.5, 10.6, 10.9});
  EXPECT_DOUBLE_EQ(r.ttft(), 0.5);
  EXPECT_NEAR(r.e2e(), 0.9, 1e-12);
  EXPECT_NEAR(r.tpot(), 0.2, 1e-12);  // (0.9 - 0.5) / 2
  const LatencyReport report = latencies({r});
  EXPECT_NEAR(report.itl.mean, 200.0, 1e-9);  // mean of 100 and 300
  EXPECT_NEAR(report.itl.p50, 200.0, 1e-9);
}

TEST(BenchStats, CountsTokensInsteadOfPieces) {
  RequestRecord r = record(0.0, {1.0, 2.0});
  r.output_tokens = 5;
  EXPECT_DOUBLE_EQ(r.tpot(), 0.25);
}

TEST(BenchStats, OmitsTpotOfSingleTokensAndLatenciesOfFailures) {
  RequestRecord failed = record(0.0, {100.0, 200.0});
  failed.error = "HTTP 500";
  const LatencyReport report = latencies({record(0.0, {0.25}), failed});
  EXPECT_DOUBLE_EQ(report.tpot.mean, 0.0);
  EXPECT_DOUBLE_EQ(report.ttft.mean, 250.0);
  EXPECT_DOUBLE_EQ(report.e2e.p99, 250.0);
}

TEST(BenchStats, SeparatesPhasesAtTheLastFirstToken) {
  RequestRecord cached = record(0.0, {2.0, 3.0, 4.0}, 30);
  cached.cached_tokens = 10;
  const Phases phases = phases_of({record(0.0, {1.0, 2.5, 3.0}), cached});
  EXPECT_DOUBLE_EQ(phases.prefill_s, 2.0);
  EXPECT_EQ(phases.prefill_tokens, 30);
  EXPECT_DOUBLE_EQ(phases.prefill_tokens_per_s(), 15.0);
  EXPECT_DOUBLE_EQ(phases.decode_s, 2.0);
  EXPECT_EQ(phases.decode_tokens, 4);
  EXPECT_DOUBLE_EQ(phases.decode_tokens_per_s(), 2.0);
}

TEST(BenchStats, ParsesGoodputObjectives) {
  const Objectives o = parse_objectives("ttft:600,tpot:50.5");
  EXPECT_EQ(o.ttft, 600.0);
  EXPECT_EQ(o.tpot, 50.5);
  EXPECT_FALSE(o.e2e.has_value());
  EXPECT_EQ(parse_objectives("e2el:9").e2e, 9.0);
  EXPECT_FALSE(parse_objectives("").any());
  for (const char* wrong : {"ttft", "ttft:", "ttft:x", "ttft:-1", "ttft:nan", "latency:5", "ttft:5 ms"}) {
    EXPECT_THROW(parse_objectives(wrong), Error) << wrong;
  }
}

TEST(BenchStats, CountsRequestsThatMeetEveryObjective) {
  const RequestRecord r = record(0.0, {0.5, 0.6, 0.9});
  EXPECT_TRUE(meets(r, parse_objectives("ttft:500,tpot:201,e2e:901")));
  EXPECT_FALSE(meets(r, parse_objectives("ttft:499")));
  EXPECT_FALSE(meets(r, parse_objectives("ttft:500,tpot:199")));
  EXPECT_FALSE(meets(r, parse_objectives("e2e:899")));
  RequestRecord failed = r;
  failed.error = "refused";
  EXPECT_FALSE(meets(failed, {}));
}

TEST(BenchStats, WritesTheDocumentedJsonFields) {
  BenchReport report;
  report.model = "m";
  report.elapsed_s = 2.0;
  RequestRecord failed = record(0.0, {1.0});
  failed.error = "x";
  add_records(report, {record(0.0, {0.5, 1.0}), record(0.0, {0.5, 1.0}), failed});
  const auto object = to_json(report);
  for (const char* key :
       {"model", "dtype", "quantization", "threads", "batch_size", "input_len", "output_len", "num_requests",
        "elapsed_s", "prefill_tokens_per_s", "decode_tokens_per_s", "output_tokens_per_s",
        "total_tokens_per_s", "load_s", "peak_memory_bytes", "weight_bytes"}) {
    EXPECT_TRUE(object.contains(key)) << key;
  }
  for (const char* key : {"ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"}) {
    for (const char* part : {"mean", "p50", "p90", "p99"})
      EXPECT_TRUE(object[key][part].is_number()) << key << part;
  }
  EXPECT_EQ(object["num_requests"], 2);
  EXPECT_EQ(object["output_tokens_per_s"], 2.0);
  EXPECT_EQ(object["total_tokens_per_s"], 12.0);
  EXPECT_TRUE(object["dtype"].is_null());
}

TEST(BenchStats, WritesATable) {
  BenchReport report;
  report.model = "m";
  report.elapsed_s = 1.0;
  add_records(report, {record(0.0, {0.125, 0.25})});
  const std::string table = to_table(report, "title", {table_line("Steps", "7")});
  EXPECT_THAT(table, HasSubstr("== title =="));
  EXPECT_THAT(table, HasSubstr("Steps:"));
  EXPECT_THAT(table, HasSubstr("125.00"));
}

TEST(BenchStats, RejectsAReportPathThatIsNotWritable) {
  testing::internal::CaptureStdout();
  EXPECT_THROW(print_report("table\n", "/nonexistent/f.json", {}), Error);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "table\n");
}

TEST(BenchStats, ReportsPeakMemoryInBytes) {
  EXPECT_GT(peak_memory_bytes(), int64_t{1} << 20);
}

}  // namespace
}  // namespace quire::cli
