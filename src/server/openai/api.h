// The endpoints: from an HttpRequest to its response. Handlers run on the HTTP threads; whatever depends on
// the size of the request runs on the WorkPool.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "server/http/http_types.h"
#include "server/http/router.h"
#include "server/http/work_pool.h"
#include "server/openai/generation.h"
#include "server/openai/generation_spec.h"
#include "server/serving_engine.h"

namespace quire {

// Shared by all handlers; constant except for `draining`.
struct ApiState {
  ServingEngine& engine;
  ApiOptions options;
  GenerationSettings settings;
  std::string version;
  bool metrics_need_key = true;
  int64_t started = 0;                        // seconds since 1970
  std::function<std::string()> http_metrics;  // further lines for /metrics; may be null
  std::shared_ptr<WorkPool> pool = std::make_shared<WorkPool>([&e = engine] { return e.busy(); });
  std::atomic<bool> draining{false};
};

std::vector<Route> api_routes(const std::shared_ptr<ApiState>& state);

// The response to a parsed body. Both throw Cancelled soon after `yield_point` is cancelled.
Result<std::string> tokenize(const Json& body, const ApiState& state, const YieldPoint& yield_point = {});
Result<std::string> detokenize(const Json& body, const ApiState& state, const YieldPoint& yield_point = {});

}  // namespace quire
