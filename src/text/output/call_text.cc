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

constexpr ParameterText kParameterTags = {"<parameter=", ">\n", "", "</parameter>", "\n"};
constexpr ParameterText kSeedTags = {"<parameter=", ">", "", "</parameter>", "\n"};
constexpr ParameterText kArgumentTags = {"<arg_key>", "</arg_key>\n<arg_value>", "", "</arg_value>", "\n"};
constexpr ParameterText kSolarTags = {"<|tool_arg:start|>", "<|tool_arg:value|>", "", "<|tool_arg:end|>",
                                      "\n"};
constexpr ParameterText kParamTags = {"<param name=\"", "\">", "", "</param>", "\n"};
constexpr ParameterText kStepTags = {"<steptml:parameter name=\"", "\">", "", "</steptml:parameter>", ""};
constexpr ParameterText kNamedTags = {"<parameter name=\"", "\">", "", "</parameter>", "\n"};
constexpr ParameterText kDsmlTags = {"<｜DSML｜parameter name=\"", "\" string=\"true\">",
                                     "\" string=\"false\">", "</｜DSML｜parameter>", "\n"};

constexpr std::string_view kFunctionTag = "<tool_call>\n<function=";
constexpr std::string_view kFunctionEnd = "</function>\n</tool_call>";

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
    {"qwen3_coder", "", kFunctionTag, ">\n", kFunctionEnd, "\n", "", false, false, &kParameterTags},
    {"step3p5", "", kFunctionTag, ">\n", kFunctionEnd, "\n", "", false, false, &kParameterTags},
    {"nemotron_v3", "", kFunctionTag, ">\n", kFunctionEnd, "\n", "", false, false, &kParameterTags},
    {"seed_oss", "", "<seed:tool_call>\n<function=", ">\n", "</function>\n</seed:tool_call>", "\n", "", false,
     false, &kSeedTags},
    {"glm45", "", "<tool_call>", "\n", "</tool_call>", "\n", "", false, false, &kArgumentTags},
    {"hy_v3", "<tool_calls>\n", "<tool_call>", "<tool_sep>\n", "</tool_call>", "\n", "\n</tool_calls>", false,
     false, &kArgumentTags},
    {"solar_open2", "", "<|tool_call:start|>", "\n", "<|tool_call:end|>", "\n", "", false, false,
     &kSolarTags},
    {"minicpm5", "", "<function name=\"", "\">\n", "</function>", "\n", "", false, false, &kParamTags},
    {"step3", "<｜tool_calls_begin｜>", "<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name=\"",
     "\">", "</steptml:invoke><｜tool_call_end｜>", "", "<｜tool_calls_end｜>", false, false, &kStepTags},
    {"minimax_m2", "<minimax:tool_call>\n", "<invoke name=\"", "\">\n", "</invoke>", "\n",
     "\n</minimax:tool_call>", false, false, &kNamedTags},
    {"deepseek_v32", "<｜DSML｜function_calls>\n", "<｜DSML｜invoke name=\"", "\">\n", "</｜DSML｜invoke>",
     "\n", "\n</｜DSML｜function_calls>", false, false, &kDsmlTags},
    {"deepseek_v4", "<｜DSML｜tool_calls>\n", "<｜DSML｜invoke name=\"", "\">\n", "</｜DSML｜invoke>", "\n",
     "\n</｜DSML｜tool_calls>", false, false, &kDsmlTags},
};

// Mistral's models before v11 have no token between the name and the arguments.
constexpr CallText kMistralList = {"mistral", "[TOOL_CALLS][", kNameHead, kThenArguments, "}", ", ", "]",
                                   true};

std::string example_arguments(const CallText& text) {
  if (text.parameters == nullptr) return "{\"PARAMETER\": VALUE}";
  const ParameterText& p = *text.parameters;
  return cat(p.before_key, "PARAMETER", p.after_key, "VALUE", p.value_end, p.after_value);
}

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
      example_arguments(*text), text->after_arguments, text->end);
}

}  // namespace quire
