#include "text/output/call_text.h"

#include <algorithm>
#include <array>

#include "base/strings.h"
#include "text/output/call_machine.h"

namespace quire {
namespace {

constexpr std::string_view kNameHead = "{\"name\": \"";
constexpr std::string_view kThenArguments = "\", \"arguments\": ";
constexpr std::string_view kThenParameters = "\", \"parameters\": ";
constexpr std::string_view kToolNameHead = "{\"tool_name\": \"";

constexpr CallText kCallTexts[] = {
    {"hermes", "", "<tool_call>\n{\"name\": \"", kThenArguments, "}\n</tool_call>", "\n", "", true},
    {"granite", "<|tool_call|>[", kNameHead, kThenArguments, "}", ", ", "]", true},
    {"granite4", "", "<tool_call>\n{\"name\": \"", kThenArguments, "}\n</tool_call>", "\n", "", true},
    {"granite-20b-fc", "", "<function_call> {\"name\": \"", kThenArguments, "}", "\n", "", true},
    {"cohere_command3", "<|START_ACTION|>[", kToolNameHead, kThenParameters, "}", ", ", "]<|END_ACTION|>",
     true},
    {"cohere_command4", "<|START_ACTION|>[", kToolNameHead, kThenParameters, "}", ", ", "]<|END_ACTION|>",
     true},
    {"command_r", "Action:\n```json\n[", kToolNameHead, kThenParameters, "}", ", ", "]\n```", true},
    {"internlm", "", "<|action_start|><|plugin|>\n{\"name\": \"", kThenParameters, "}<|action_end|>", "\n",
     "", true},
    {"nemotron_json", "<TOOLCALL>[", kNameHead, kThenArguments, "}", ", ", "]</TOOLCALL>", true},
    {"jamba", "<tool_calls>[", kNameHead, kThenArguments, "}", ", ", "]</tool_calls>", true},
    {"longcat", "", "<longcat_tool_call>\n{\"name\": \"", kThenArguments, "}\n</longcat_tool_call>", "\n", "",
     true},
    {"apertus", "<|tools_prefix|>[", "{\"", "\": ", "}", ", ", "]<|tools_suffix|>", true},
    {"phi4_mini_json", "<|tool_call|>[", kNameHead, kThenArguments, "}", ", ", "]<|/tool_call|>", true},
    {"llama3_json", "", kNameHead, kThenParameters, "}", "; ", "", true},
    {"xlam", "[", kNameHead, kThenArguments, "}", ", ", "]", true},
    {"json", "", kNameHead, kThenArguments, "}", "\n", "", true},
    {"mistral", "", "[TOOL_CALLS]", "[ARGS]", "", "", ""},
    {"deepseek_v3", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```json\n",
     "\n```<｜tool▁call▁end｜>", "\n", "<｜tool▁calls▁end｜>"},
    {"deepseek_v31", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>",
     "<｜tool▁call▁end｜>", "", "<｜tool▁calls▁end｜>"},
    {"kimi_k2", "<|tool_calls_section_begin|>", "<|tool_call_begin|>functions.",
     "<|tool_call_argument_begin|>", "<|tool_call_end|>", "", "<|tool_calls_section_end|>", false, true},
    {"functionary_v3_1", "", "<function=", ">", "</function>", "", ""},
    {"harmony", "", "<|channel|>commentary to=functions.", " <|constrain|>json<|message|>", "", "", ""},
};

// Mistral's models before v11 have no token between the name and the arguments.
constexpr CallText kMistralList = {"mistral", "[TOOL_CALLS][", kNameHead, kThenArguments, "}", ", ", "]",
                                   true};

}  // namespace

const CallText* call_text(const CallFormat& format, const FindMarker& token_of) {
  if (format.name == "mistral" && token_of && !token_of("[ARGS]")) return &kMistralList;
  const auto* row = std::find_if(std::begin(kCallTexts), std::end(kCallTexts),
                                 [&](const CallText& text) { return text.format == format.name; });
  return row == std::end(kCallTexts) ? nullptr : row;
}

bool can_name(const CallFormat& format, std::string_view name) {
  if (name.empty() || name.size() > kMaxToolName) return false;
  if (format.machine == CallMachine::kJson) return true;
  if (!std::all_of(name.begin(), name.end(), is_name_byte)) return false;
  // Text before the last period, and after a colon, belongs to the id.
  return format.id_form != CallIdForm::kKimi || name.find_first_of(".:") == std::string_view::npos;
}

std::string written_name(const CallText& text, std::string_view name) {
  std::string written;
  if (text.json_name) {
    append_escaped(written, name);
  } else {
    written = name;
  }
  return written;
}

std::string how_to_call(const CallFormat& format, const FindMarker& token_of) {
  const CallText* text = call_text(format, token_of);
  if (text == nullptr) return "To call tools, write the calls in the way that you have learned.";
  return cat(
      "To call tools, answer with nothing else than this, with the name of the tool and its arguments:\n",
      text->begin, text->before_name, "NAME", text->indexed ? ":0" : "", text->after_name,
      "{\"PARAMETER\": VALUE}", text->after_arguments, text->end);
}

}  // namespace quire
