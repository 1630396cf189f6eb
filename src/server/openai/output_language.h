// The constraint of a chat's whole output: reasoning, calls and answer.
#pragma once

#include <optional>
#include <string_view>

#include "server/openai/generation_spec.h"
#include "server/openai/tool_fields.h"

namespace quire {

// Sets spec.constraint to that of the whole output, and names keywords without effect in spec.ignored_params.
// This and the next function throw as ServingEngine::compile() does.
Status constrain_answer(GenerationSpec& spec, const ServingEngine& engine, const StructuredOutputs& answer,
                        const CompileOptions& compiling);

// Sets spec.reading and spec.constraint. `answer`: the constraint that the request gives; calls are
// constrained if tool_choice demands one, or a tool is strict, or they may come instead of a constrained
// answer. The formats of calls that have no grammar are then replaced by JSON, or the request is refused.
// `prompt` is the rendered text.
Status set_output_language(GenerationSpec& spec, const ServingEngine& engine, const DetectedFormat& formats,
                           const std::optional<StructuredOutputs>& answer, const ToolFields& tools,
                           const ReasoningFields& reasoning, std::string_view prompt,
                           const CompileOptions& compiling);

}  // namespace quire
