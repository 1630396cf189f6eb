#include "text/output/detect_format.h"

#include <algorithm>
#include <array>
#include <optional>

#include "text/chat/messages.h"
#include "text/chat/template_forms.h"
#include "text/output/output_parser.h"

namespace quire {
namespace {

constexpr const char* kProbeTool = "get_weather";
constexpr const char* kProbeReasoning = "Seven probes were counted.";

// Arguments of the call that is rendered, the most telling first. Some templates print strings or objects in
// a notation that nothing can read.
constexpr std::array<const char*, 4> kProbeArguments = {
    R"({"place": "Bern, \"CH\"", "days": 3, "flags": {"a": [true, null, "x"]}})",
    R"({"place": "Bern", "days": 3})", R"({"days": 3})", R"({})"};

Json probe_tools() {
  return Json::parse(R"([{"type": "function", "function": {"name": "get_weather",
    "description": "The weather of a place.", "parameters": {"type": "object", "properties": {
      "place": {"type": "string", "description": "A city"},
      "days": {"type": "integer", "description": "How many"},
      "flags": {"type": "object", "description": "More", "additionalProperties": {"type": "string"}}}, "required": ["place"]}}}])");
}

class TemplateProbe {
 public:
  TemplateProbe(const ChatTemplate& chat_template, const std::map<std::string, std::string>& special_tokens)
      : template_(chat_template), special_tokens_(special_tokens) {}

  // The prompt of a conversation; nothing if the template refuses it.
  std::optional<std::string> render(const Json& messages, bool with_tools, bool generation_prompt) const {
    Json request = {{"messages", messages}, {"add_generation_prompt", generation_prompt}};
    if (with_tools) request["tools"] = probe_tools();
    auto read = read_chat_request(request, MediaParts::kKeep);
    if (!read.ok()) return std::nullopt;
    ChatRenderOptions options;
    options.messages = std::move(read->messages);
    options.tools = std::move(read->tools);
    options.kwargs = std::move(read->kwargs);
    options.add_generation_prompt = generation_prompt;
    options.special_tokens = special_tokens_;
    options.now = LocalTime{};
    if (!fit_messages(template_, ContentFormat::kAuto, options).ok()) return std::nullopt;
    auto text = template_.render(options);
    if (!text.ok()) return std::nullopt;
    return std::move(text).value();
  }

 private:
  const ChatTemplate& template_;
  const std::map<std::string, std::string>& special_tokens_;
};

Json user_message() {
  return {{"role", "user"}, {"content", "How is the weather?"}};
}

Json probe_call(const Json& arguments) {
  return {{"role", "assistant"},
          {"content", ""},
          {"tool_calls",
           {{{"id", "a1B2c3D4e"},
             {"type", "function"},
             {"function", {{"name", kProbeTool}, {"arguments", arguments.dump()}}}}}}};
}

// What `longer` has after the beginning that both have.
std::string_view after_common_beginning(std::string_view shorter, std::string_view longer) {
  const auto at = std::mismatch(shorter.begin(), shorter.end(), longer.begin(), longer.end());
  return longer.substr(static_cast<size_t>(at.second - longer.begin()));
}

// The text of the assistant's message with the call, and of what follows; "" if it cannot be rendered.
std::string rendered_call(const TemplateProbe& probe, const Json& arguments, bool with_result) {
  Json messages = Json::array({user_message()});
  auto before = probe.render(messages, true, false);
  if (!before) before = probe.render(messages, true, true);
  messages.push_back(probe_call(arguments));
  if (with_result) {
    messages.push_back(
        {{"role", "tool"}, {"tool_call_id", "a1B2c3D4e"}, {"name", kProbeTool}, {"content", "snow"}});
    messages.push_back({{"role", "assistant"}, {"content", "It snows."}});
  }
  const auto whole = probe.render(messages, true, false);
  if (!before || !whole) return "";
  return std::string(after_common_beginning(*before, *whole));
}

size_t count_literals(const CallFormat& format, const std::string& source) {
  return static_cast<size_t>(std::count_if(
      format.literals.begin(), format.literals.end(),
      [&](std::string_view text) { return !text.empty() && source.find(text) != std::string::npos; }));
}

// The row whose parser returns exactly the call, and leaves the least of the rest as text.
const CallFormat* parse_back(const std::string& text, const Json& arguments, const std::string& source,
                             const std::shared_ptr<const ToolSet>& tools) {
  const CallFormat* best = nullptr;
  size_t best_rest = 0, best_literals = 0;
  for (const auto& format : call_formats()) {
    OutputParserOptions options;
    options.calls = &format;
    options.tools = tools;
    OutputParser parser(options);
    std::vector<OutputEvent> events;
    parser.push(text, events);
    parser.finish(events);
    const ParsedOutput output = fold_events(events);
    if (output.calls.size() != 1 || !output.calls[0].complete || output.calls[0].name != kProbeTool) continue;
    const Json parsed = Json::parse(output.calls[0].arguments, nullptr, false);
    // Not Json::operator==, for which the order of keys counts.
    if (nlohmann::json(parsed) != nlohmann::json(arguments)) continue;
    const size_t rest = output.text.size();
    const size_t literals = count_literals(format, source);
    if (best == nullptr || rest < best_rest || (rest == best_rest && literals > best_literals)) {
      best = &format;
      best_rest = rest;
      best_literals = literals;
    }
  }
  return best;
}

// The row of which the source contains the most texts.
const CallFormat* find_literals(const std::string& source) {
  constexpr size_t kShortest = 4;  // of markers that say something
  const CallFormat* best = nullptr;
  size_t best_count = 0;
  for (const auto& format : call_formats()) {
    size_t count = count_literals(format, source);
    if (count == 0) continue;
    for (const auto& marker : format.markers)
      count += marker.text.size() >= kShortest && source.find(marker.text) != std::string::npos ? 1 : 0;
    if (count <= best_count) continue;
    best = &format;
    best_count = count;
  }
  return best;
}

void detect_calls(const TemplateProbe& probe, const std::string& source, DetectedFormat& result) {
  const auto tools = std::make_shared<const ToolSet>(probe_tools());
  for (const char* text : kProbeArguments) {
    const Json arguments = Json::parse(text);
    for (const bool with_result : {false, true}) {
      const std::string rendered = rendered_call(probe, arguments, with_result);
      if (rendered.find(kProbeTool) == std::string::npos) continue;
      result.calls = parse_back(rendered, arguments, source, tools);
      if (result.calls == nullptr) continue;
      result.calls_method = FormatMethod::kRendered;
      return;
    }
  }
  result.calls = find_literals(source);
  result.calls_method = FormatMethod::kLiteral;
  if (result.calls != nullptr) return;
  result.calls = find_call_format("json");
  result.calls_method = FormatMethod::kGeneric;
}

std::string_view trim_both(std::string_view text) {
  while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_json_space(text.back())) text.remove_suffix(1);
  return text;
}

// Whether the row's markers surround the reasoning in the prompt.
bool surrounds(const ReasoningFormat& format, std::string_view before, std::string_view after) {
  before = trim_both(before);
  after = trim_both(after);
  const std::string_view skip = trim_both(format.skip);
  if (!skip.empty() && before.ends_with(skip))
    before = trim_both(before.substr(0, before.size() - skip.size()));
  bool begins = false, ends = false;
  for (const auto& marker : format.markers) {
    if (marker.text.empty()) continue;
    begins |= marker.role == MarkerRole::kReasoningBegin && before.ends_with(marker.text);
    ends |= marker.role == MarkerRole::kReasoningEnd && after.starts_with(marker.text);
  }
  return begins && ends;
}

bool has_reasoning_texts(const ReasoningFormat& format, const std::string& source) {
  bool begins = false, ends = false;
  for (const auto& marker : format.markers) {
    if (marker.text.empty()) continue;
    const bool found = source.find(marker.text) != std::string::npos;
    begins |= found && marker.role == MarkerRole::kReasoningBegin;
    ends |= found && marker.role == MarkerRole::kReasoningEnd;
  }
  return begins || ends;
}

// The first row that `matches`: that of the calls, one that says nothing about the beginning, or another.
template <typename Matches>
const ReasoningFormat* choose_reasoning(const CallFormat* calls, Matches&& matches) {
  if (calls != nullptr) {
    const auto* own = find_reasoning_format(calls->reasoning);
    if (own != nullptr && matches(*own)) return own;
  }
  if (const auto* plain = find_reasoning_format("deepseek_v3"); matches(*plain)) return plain;
  for (const auto& format : reasoning_formats()) {
    if (matches(format)) return &format;
  }
  return nullptr;
}

void detect_reasoning(const TemplateProbe& probe, const std::string& source, DetectedFormat& result) {
  if (result.calls != nullptr && result.calls->machine == CallMachine::kHarmony) {
    result.reasoning = find_reasoning_format(result.calls->reasoning);
    result.reasoning_method = result.calls_method;
    return;
  }
  const Json messages = Json::array(
      {user_message(),
       {{"role", "assistant"}, {"content", "It snows."}, {"reasoning_content", kProbeReasoning}}});
  if (const auto whole = probe.render(messages, false, false)) {
    const size_t at = whole->find(kProbeReasoning);
    if (at != std::string::npos) {
      const std::string_view text = *whole;
      const auto before = text.substr(0, at),
                 after = text.substr(at + std::string_view(kProbeReasoning).size());
      result.reasoning = choose_reasoning(
          result.calls, [&](const auto& format) { return surrounds(format, before, after); });
      if (result.reasoning != nullptr) {
        result.reasoning_method = FormatMethod::kRendered;
        return;
      }
    }
  }
  result.reasoning =
      choose_reasoning(result.calls, [&](const auto& format) { return has_reasoning_texts(format, source); });
  if (result.reasoning != nullptr) result.reasoning_method = FormatMethod::kLiteral;
}

}  // namespace

DetectedFormat detect_format(const ChatTemplate& chat_template,
                             const std::map<std::string, std::string>& special_tokens) {
  const TemplateProbe probe(chat_template, special_tokens);
  DetectedFormat result;
  if (chat_template.uses("tools") || find_literals(chat_template.source()) != nullptr)
    detect_calls(probe, chat_template.source(), result);
  detect_reasoning(probe, chat_template.source(), result);
  return result;
}

std::string_view method_name(FormatMethod method) {
  switch (method) {
    case FormatMethod::kNone:
      return "none";
    case FormatMethod::kRendered:
      return "rendered";
    case FormatMethod::kLiteral:
      return "literal";
    case FormatMethod::kGeneric:
      return "generic";
  }
  return "";
}

}  // namespace quire
