// The fields of a chat request about tools and reasoning, and what they say about its output.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "server/openai/field_reader.h"
#include "server/openai/generation_spec.h"
#include "text/output/call_text.h"

namespace quire {

enum class ToolChoice : uint8_t {
  kNone,      // no tool may be called
  kAuto,      // the model decides
  kRequired,  // at least one call
  kNamed,     // calls of one tool
};

struct ToolFields {
  const Json* tools = nullptr;  // those that can be called; null if there are none
  const Json* given = nullptr;  // all tools of the request; a part of the body
  // The tools that the request allows out of those that it gives (allowed_tools); null for all.
  std::shared_ptr<const Json> allowed = nullptr;
  ToolChoice choice = ToolChoice::kNone;
  std::string name;  // of kNamed
  bool parallel = true;
};

// Checks `tools`, `tool_choice` and `parallel_tool_calls`.
ToolFields read_tool_fields(FieldReader& fields);

// `functions` and `function_call`, the forms of 2023, as `tools` and `tool_choice`, also in messages; nullopt
// if the body has neither.
Result<std::optional<Json>> without_old_forms(const Json& body);

// How the response shows reasoning: `include_reasoning` and `reasoning_format`; and whether there is to be
// none (`reasoning_effort`, of which every value is a variable of the template).
struct ReasoningFields {
  bool show = true;
  bool separate = true;  // not a part of the content
  bool effort_is_none = false;
};
ReasoningFields read_reasoning_fields(FieldReader& fields);

// Finds the tokens of markers. `engine` must outlive it.
FindMarker marker_finder(const ServingEngine& engine);

// How the output is read; nullopt if all of it is content.
std::optional<OutputReading> output_reading(const DetectedFormat& formats, const ToolFields& tools,
                                            const ReasoningFields& reasoning, const ServingEngine& engine);

}  // namespace quire
