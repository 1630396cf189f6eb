// The fields of a request that constrain its output: response_format, structured_outputs, vLLM's older
// guided_*, and the names of llama.cpp and SGLang.
#pragma once

#include <optional>

#include "contract/sampling_params.h"
#include "server/openai/field_reader.h"

namespace quire {

// The constraint of a request; nullopt if it has none. A request that gives two constraints, or one that is
// malformed, fails in `fields`.
std::optional<StructuredOutputs> read_constraint(FieldReader& fields);

}  // namespace quire
