// The formats in which models write tool calls and reasoning, as data. The parser, the detection of a
// template's format and the documentation follow from these rows.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace quire {

// The state machine that reads the calls of a format.
enum class CallMachine : uint8_t {
  kJson,      // an object with name and arguments, or a list of them
  kNameJson,  // a name, then the arguments as JSON
  kXml,       // a name, then parameters between tags
  kPython,    // Python calls
  kGemma,     // call:name{key:value}
  kHarmony,   // channels
};

// Meanings of markers. A machine expects some of them in each of its states.
enum class MarkerRole : uint8_t {
  kReasoningBegin,
  kReasoningEnd,
  kOpen,          // begins a section of calls
  kClose,         // ends it
  kCall,          // begins one call
  kCallEnd,       // ends it
  kSkipEnd,       // ends a part of a call before its name that says nothing
  kNameEnd,       // ends the name, or the id
  kIdBegin,       // ends the name and begins the id
  kParameter,     // begins a parameter's name
  kParameterEnd,  // ends it
  kStringEnd,     // ends it, and says that the value is a string
  kJsonEnd,       // ends it, and says that the value is JSON
  kValue,         // begins a value, where that is not kParameterEnd
  kValueEnd,
  kQuote,  // around strings
  kDrop,   // not part of the text
  kChannel,
  kMessage,
  kStart,
  kConstrain,
  kCount,
};

struct Marker {
  MarkerRole role{};
  std::string_view text;
};

// Where the id of a call comes from.
enum class CallIdForm : uint8_t {
  kRandom,   // "call_" and 24 hexadecimal digits, unless the output has one
  kMistral,  // 9 letters and digits
  kKimi,     // functions.NAME:INDEX, which is what the output has
};

using Names = std::array<std::string_view, 6>;

struct CallFormat {
  std::string_view name;
  CallMachine machine{};
  std::array<Marker, 16> markers{};
  CallIdForm id_form = CallIdForm::kRandom;
  bool parallel = true;          // several calls in one output
  bool keyed = false;            // JSON objects have the name as the key of the arguments
  bool bare = false;             // calls may also begin without a marker
  bool trim_newlines = false;    // one line break before and after a value is not part of it
  std::string_view reasoning{};  // the row of the reasoning of these models, "" if there is none
  Names aliases{};               // vLLM's names of parsers
  // Texts of a template that tell the format where nothing can be rendered.
  std::array<std::string_view, 3> literals{};
};

struct ReasoningFormat {
  std::string_view name;
  std::array<Marker, 8> markers{};
  bool starts_open = false;        // without a template, the output begins with reasoning
  bool reopens = false;            // reasoning may begin again after text
  bool calls_end_it = false;       // a call within reasoning ends it
  bool trim_newlines = false;      // one line break before and after the end is dropped
  std::string_view before_text{};  // text that precedes the output
  std::string_view skip{};         // the beginning of reasoning that is not part of it
  Names aliases{};
};

std::span<const CallFormat> call_formats();
std::span<const ReasoningFormat> reasoning_formats();

// By the name of a row or an alias; null if there is none.
const CallFormat* find_call_format(std::string_view name);
const ReasoningFormat* find_reasoning_format(std::string_view name);

}  // namespace quire
