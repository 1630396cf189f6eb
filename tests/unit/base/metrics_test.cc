#include "base/metrics.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace quire {
namespace {

TEST(Metrics, WritesCountersWithTotalUnderEachPrefix) {
  MetricsRegistry registry({{"model_name", "m"}}, {"quire:", "vllm:"});
  registry.counter("prompt_tokens", "Prompt tokens.").add(3);
  EXPECT_EQ(registry.render(),
            "# HELP quire:prompt_tokens_total Prompt tokens.\n# TYPE quire:prompt_tokens_total counter\n"
            "quire:prompt_tokens_total{model_name=\"m\"} 3\n"
            "# HELP vllm:prompt_tokens_total Prompt tokens.\n# TYPE vllm:prompt_tokens_total counter\n"
            "vllm:prompt_tokens_total{model_name=\"m\"} 3\n");
}

TEST(Metrics, GroupsSeriesOfOneNameIntoAFamily) {
  MetricsRegistry registry({}, {""});
  registry.counter("request_success", "By reason.", {{"reason", "stop"}}).add();
  registry.counter("request_success", "", {{"reason", "length"}}).add(2);
  EXPECT_EQ(registry.render(),
            "# HELP request_success_total By reason.\n# TYPE request_success_total counter\n"
            "request_success_total{reason=\"stop\"} 1\nrequest_success_total{reason=\"length\"} 2\n");
}

TEST(Metrics, WritesCumulativeHistogramBuckets) {
  MetricsRegistry registry({}, {""});
  constexpr std::array<double, 2> kBounds = {1.0, 2.5};
  Histogram& h = registry.histogram("seconds", "Time.", kBounds);
  for (const double v : {0.5, 1.0, 2.0, 9.0}) h.observe(v);
  EXPECT_EQ(registry.render(),
            "# HELP seconds Time.\n# TYPE seconds histogram\n"
            "seconds_bucket{le=\"1\"} 2\nseconds_bucket{le=\"2.5\"} 3\nseconds_bucket{le=\"+Inf\"} 4\n"
            "seconds_sum 12.5\nseconds_count 4\n");
}

TEST(Metrics, EscapesLabelValues) {
  MetricsRegistry registry({{"model_name", "a\"b\\c\nd"}}, {""});
  registry.gauge("g", "G.").set(1);
  EXPECT_NE(registry.render().find("g{model_name=\"a\\\"b\\\\c\\nd\"} 1\n"), std::string::npos);
}

TEST(Metrics, ReplacesValuesOfCommonLabels) {
  MetricsRegistry registry({{"model_name", "m"}, {"engine", "0"}}, {""});
  registry.gauge("g", "G.", {{"tier", "host"}}).set(1);
  const std::string page = registry.render({{"model_name", "served"}});
  EXPECT_NE(page.find("g{model_name=\"served\",engine=\"0\",tier=\"host\"} 1\n"), std::string::npos) << page;
}

TEST(Metrics, AnInfoGaugeHasTheLabelsThatWereSetLast) {
  MetricsRegistry registry({{"engine", "0"}}, {"vllm:"});
  InfoGauge& info = registry.info("lora_requests_info", "L.");
  info.set({{"running", "a"}}, 1);
  info.set({{"running", "a,b"}}, 2);
  EXPECT_EQ(registry.render(),
            "# HELP vllm:lora_requests_info L.\n# TYPE vllm:lora_requests_info gauge\n"
            "vllm:lora_requests_info{engine=\"0\",running=\"a,b\"} 2\n");
}

TEST(Metrics, CountsUpdatesOfManyThreads) {
  MetricsRegistry registry({}, {""});
  Counter& counter = registry.counter("c", "C.");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&counter] {
      for (int k = 0; k < 10000; ++k) counter.add();
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(counter.value(), 40000.0);
}

}  // namespace
}  // namespace quire
