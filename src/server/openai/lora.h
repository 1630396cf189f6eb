// The endpoints that load and unload LoRA adapters while the server runs.
#pragma once

#include "server/http/http_types.h"
#include "server/openai/api.h"

namespace quire {

// POST /v1/load_lora_adapter: lora_name, lora_path (below one of ApiOptions::lora_dirs), load_inplace. Reads
// the adapter before it returns.
HttpResponse load_lora_adapter(const Json& body, const ApiState& state);
// POST /v1/unload_lora_adapter: lora_name.
HttpResponse unload_lora_adapter(const Json& body, const ApiState& state);

}  // namespace quire
