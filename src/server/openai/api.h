// The endpoints: from an HttpRequest to an answer. Everything here runs on the HTTP threads.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "server/http/http_types.h"
#include "server/http/router.h"
#include "server/openai/generation.h"
#include "server/openai/generation_spec.h"
#include "server/serving_engine.h"

namespace quire {

// Shared by all handlers; constant but for the flag.
struct ApiState {
  ServingEngine& engine;
  ApiOptions options;
  GenerationSettings settings;
  std::string version;
  bool metrics_need_key = true;
  int64_t started = 0;                        // seconds since 1970
  std::function<std::string()> http_metrics;  // more lines for /metrics; may be empty
  std::atomic<bool> draining{false};
};

std::vector<Route> api_routes(const std::shared_ptr<ApiState>& state);

// Each takes a parsed body and answers at once.
Result<std::string> answer_tokenize(const Json& body, const ApiState& state);
Result<std::string> answer_detokenize(const Json& body, const ApiState& state);

}  // namespace quire
