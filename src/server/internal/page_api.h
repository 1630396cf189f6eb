// Endpoints for the web page, outside of OpenAI's namespace. They are read-only, need an API key if there are
// keys, and may change with any version.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/http/router.h"
#include "server/openai/api.h"

namespace quire {

// The properties of the loaded model as JSON: limits, formats, the chat template and sampling defaults.
std::string model_info_json(const ApiState& state);

// GET /internal/model and GET /internal/engine, the live view. However many clients watch, and however large
// the pool is, snapshots take less than 1 % of one core: they are shared, and made less often if they take
// longer.
std::vector<Route> page_api_routes(const std::shared_ptr<ApiState>& state);

}  // namespace quire
