// How calls are written in the formats of tool calls: the texts of constrained outputs, and an instruction
// for models that have not learned a format.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "contract/ids.h"
#include "text/output/formats.h"

namespace quire {

// The token of a marker, if it has one of its own.
using FindMarker = std::function<std::optional<TokenId>(std::string_view)>;

// Parameters between tags: (before_key KEY after_key VALUE value_end after_value) ...
struct ParameterText {
  std::string_view before_key;
  std::string_view after_key;
  std::string_view after_key_of_json;  // for values that are JSON, where that is another text; or ""
  std::string_view value_end;
  std::string_view after_value;
};

// begin (before_name NAME after_name ARGUMENTS after_arguments) separator (...) end
struct CallText {
  std::string_view format;
  std::string_view begin;
  std::string_view before_name;
  std::string_view after_name;
  std::string_view after_arguments;
  std::string_view separator;
  std::string_view end;
  bool json_name = false;                     // the name is in a JSON string
  bool indexed = false;                       // a number follows ":" after the name
  const ParameterText* parameters = nullptr;  // the arguments, if they are not JSON
};

// Null if there is no text for the format: constrained calls are then written in another one. The version of
// a format can depend on the tokens of the model.
const CallText* call_text(const CallFormat& format, const FindMarker& token_of);

// Whether the format's parser returns the name as it is.
bool can_name(const CallFormat& format, std::string_view name);

// The name as it is written within a call.
std::string written_name(const CallText& text, std::string_view name);

// An instruction for models whose template says nothing about tools.
std::string how_to_call(const CallFormat& format, const FindMarker& token_of);

}  // namespace quire
