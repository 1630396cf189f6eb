#include "text/output/choose_format.h"

#include <map>
#include <span>

#include "base/error.h"
#include "base/strings.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {
namespace {

bool is_given(const std::optional<std::string>& name) {
  return name && *name != "auto";
}

template <typename Row>
Error unknown_parser(std::string_view flag, std::string_view name, std::span<const Row> rows) {
  std::string names = "auto, none";
  for (const Row& row : rows) names += cat(", ", row.name);
  return Error(cat(flag, ": '", name, "' is not one of ", names));
}

}  // namespace

void check_parser_names(const ParserNames& names) {
  DetectedFormat ignored;
  apply_parser_names(names, ignored);
}

void apply_parser_names(const ParserNames& names, DetectedFormat& formats) {
  if (is_given(names.calls)) {
    formats.calls = find_call_format(*names.calls);
    if (formats.calls == nullptr && *names.calls != "none")
      throw unknown_parser("--tool-call-parser", *names.calls, call_formats());
  }
  if (is_given(names.reasoning)) {
    formats.reasoning = find_reasoning_format(*names.reasoning);
    if (formats.reasoning == nullptr && *names.reasoning != "none")
      throw unknown_parser("--reasoning-parser", *names.reasoning, reasoning_formats());
    // Harmony's channels are one format.
    if (formats.reasoning != nullptr && formats.reasoning->name == "harmony" && !is_given(names.calls))
      formats.calls = find_call_format("harmony");
  }
}

const ChatTemplate* tool_template(const ChatTemplates& templates) {
  const ChatTemplate* own = templates.find("tool_use");
  return own != nullptr ? own : templates.find("default");
}

DetectedFormat detect_formats(const ChatTemplates& templates, const Tokenizer* tokenizer) {
  const ChatTemplate* chat_template = tool_template(templates);
  if (chat_template == nullptr) return {};
  return detect_format(*chat_template, tokenizer == nullptr ? std::map<std::string, std::string>()
                                                            : tokenizer->named_tokens());
}

}  // namespace quire
