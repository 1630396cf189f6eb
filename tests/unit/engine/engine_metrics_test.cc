#include "engine/engine_metrics.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "engine/engine_types.h"

namespace quire {
namespace {

TEST(EngineMetrics, LatencyBucketsBeginAtATenthOfAMillisecond) {
  MetricsRegistry registry({}, {"quire:"});
  const EngineMetrics metrics(registry, ModelInfo{});
  const std::string text = registry.render();
  for (const char* name :
       {"time_to_first_token", "inter_token_latency", "request_time_per_output_token", "e2e_request_latency",
        "request_queue_time", "request_prefill_time", "request_decode_time", "request_inference_time"}) {
    const std::string first = cat("\nquire:", name, "_seconds_bucket{le=\"");
    const size_t at = text.find(first);
    ASSERT_NE(at, std::string::npos) << name;
    EXPECT_EQ(text.substr(at + first.size(), 7), "0.0001\"") << name;
  }
}

}  // namespace
}  // namespace quire
