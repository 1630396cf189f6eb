// The sampling defaults and end tokens of a model's generation_config.json. Load time only.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "contract/ids.h"
#include "contract/sampling_params.h"

namespace quire {

struct GenerationDefaults {
  SamplingParams sampling;     // max_tokens: max_new_tokens of the file, if it has one
  int32_t max_new_tokens = 0;  // 0 = none
  std::vector<TokenId> end_tokens;
  std::vector<std::string> warnings;  // one sentence each
};

// file: its contents; nullopt = there is none. use_sampling: whether its sampling parameters apply. A value
// that a request could not have is not used, and a warning says so; no default can make every request fail.
GenerationDefaults read_generation_config(const std::optional<nlohmann::json>& file, int64_t vocab_size,
                                          bool use_sampling);

// Replaces defaults by those of a JSON object (--override-generation-config). Throws Error for a value that a
// request could not have and for a field that is not a sampling parameter.
void override_generation_defaults(const std::string& json, int64_t vocab_size, GenerationDefaults& defaults);

}  // namespace quire
