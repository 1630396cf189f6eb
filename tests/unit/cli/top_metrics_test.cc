#include <gtest/gtest.h>

#include "cli/top/server_metrics.h"
#include "quire/error.h"

namespace quire::cli {
namespace {

constexpr const char* kFirst =
    R"(# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="org/model \"x\""} 3.0
vllm:num_requests_running{engine="1",model_name="org/model"} 2.0
vllm:num_requests_waiting{engine="0"} 7
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.25
vllm:prefix_cache_queries_total{engine="0"} 1000
vllm:prefix_cache_hits_total{engine="0"} 400
vllm:generation_tokens_total{engine="0"} 100
vllm:request_success_total{finished_reason="stop"} 4
vllm:request_success_total{finished_reason="length"} 6
vllm:time_to_first_token_seconds_bucket{le="0.1"} 10
vllm:time_to_first_token_seconds_bucket{le="0.2"} 10
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 10
vllm:time_to_first_token_seconds_sum 0.5
vllm:time_to_first_token_seconds_count 10
process_cpu_seconds_total 12.5
)";

ServerMetrics second() {
  ServerMetrics metrics = parse_metrics(kFirst, 12.0);
  metrics.values["generation_tokens"] = 300;
  metrics.values["prefix_cache_queries"] = 1100;
  metrics.values["prefix_cache_hits"] = 490;
  MetricHistogram& ttft = metrics.histograms["time_to_first_token_seconds"];
  ttft.buckets = {{0.1, 10}, {0.2, 20}, {std::numeric_limits<double>::infinity(), 20}};
  ttft.sum = 2.0;
  ttft.count = 20;
  return metrics;
}

TEST(TopMetrics, ReadsVllmNames) {
  const ServerMetrics metrics = parse_metrics(kFirst, 10.0);
  const ServerActivity activity = activity_of({}, metrics, metrics);
  EXPECT_EQ(metrics.model, "org/model \"x\"");
  EXPECT_EQ(activity.running, 5.0);
  EXPECT_EQ(activity.waiting, 7.0);
  EXPECT_EQ(activity.finished, 10.0);
  EXPECT_EQ(activity.kv_usage, 0.375);
  EXPECT_EQ(activity.prefix_hit_rate, 0.4);
  EXPECT_FALSE(activity.preemptions.has_value());
  EXPECT_FALSE(activity.generation_rate.has_value());
}

TEST(TopMetrics, ComputesRatesBetweenTwoReadings) {
  const ServerMetrics first = parse_metrics(kFirst, 10.0);
  const ServerActivity activity = activity_of(first, first, second());
  EXPECT_EQ(activity.generation_rate, 100.0);
  EXPECT_EQ(activity.request_rate, 0.0);
  EXPECT_EQ(activity.prefix_hit_rate, 0.9);
}

TEST(TopMetrics, InterpolatesPercentilesOfThePeriod) {
  const ServerMetrics first = parse_metrics(kFirst, 10.0);
  const auto ttft = activity_of(first, first, second()).ttft;
  ASSERT_TRUE(ttft.has_value());
  EXPECT_DOUBLE_EQ(ttft->mean, 0.15);
  EXPECT_DOUBLE_EQ(ttft->p50.value, 0.15);
  EXPECT_DOUBLE_EQ(ttft->p90.value, 0.19);
  EXPECT_FALSE(ttft->p50.is_bound);
  EXPECT_FALSE(activity_of(second(), second(), second()).ttft.has_value());
}

TEST(TopMetrics, OnlyBoundsPercentilesInTheLowestBucket) {
  MetricHistogram histogram;
  histogram.buckets = {{0.3, 90}, {0.5, 100}, {std::numeric_limits<double>::infinity(), 100}};
  histogram.count = 100;
  histogram.sum = 4.0;
  const auto summary = summarize({}, histogram);
  ASSERT_TRUE(summary.has_value());
  EXPECT_TRUE(summary->p50.is_bound);
  EXPECT_DOUBLE_EQ(summary->p50.value, 0.08);  // twice the mean, and not 0.15
  EXPECT_TRUE(summary->p90.is_bound);
  EXPECT_DOUBLE_EQ(summary->p90.value, 0.3);
  EXPECT_FALSE(summary->p99.is_bound);
}

TEST(TopMetrics, CountsFromZeroAfterARestart) {
  ServerMetrics restarted = parse_metrics(kFirst, 14.0);
  const ServerActivity activity = activity_of(second(), second(), restarted);
  EXPECT_EQ(activity.generation_rate, 50.0);
  ASSERT_TRUE(activity.ttft.has_value());
  EXPECT_DOUBLE_EQ(activity.ttft->mean, 0.05);
}

TEST(TopMetrics, PrefersTheServersOwnNames) {
  const auto metrics = parse_metrics("vllm:num_requests_running 1\nquire:num_requests_running 2\n", 0.0);
  EXPECT_EQ(metrics.value("num_requests_running"), 2.0);
}

TEST(TopMetrics, IgnoresLinesThatAreNotSamples) {
  const auto metrics =
      parse_metrics("vllm:a{x=\"1 2\nvllm:b nan\nvllm:c\nvllm:d{le=\"\\\"}\"} 4 1700000000\r\n", 0.0);
  EXPECT_EQ(metrics.values, (std::map<std::string, double>{{"d", 4.0}}));
}

TEST(TopMetrics, RejectsOtherServers) {
  EXPECT_THROW(parse_metrics("go_goroutines 7\n", 0.0), Error);
}

}  // namespace
}  // namespace quire::cli
