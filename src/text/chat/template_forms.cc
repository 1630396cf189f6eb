#include "text/chat/template_forms.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "text/chat/chat_template.h"
#include "text/chat/jinja/json_text.h"

namespace quire {
namespace {

using Question = TemplateForms::Question;

// A template that needs more than this for a few words is not asked any further.
constexpr ChatRenderLimits kProbeLimits = {size_t{1} << 20, 200'000};

constexpr std::string_view kShown = "719305826401";   // the text of a probe
constexpr std::string_view kHidden = "406281950317";  // shown only by a template that prints whole parts
constexpr std::string_view kCallId = "a1B2c3D4e";     // Mistral's templates require nine letters and digits

// Answers. 0 stands for a question that has not been asked. Unanswered: nothing could be rendered, or the
// template does not show such messages.
enum Answer : uint8_t {
  kUnanswered = 1,
  kStrings,  // content
  kLists,
  kBoth,
  kObjects,  // arguments
  kTexts,
  kObjectsAndTexts,
  kMissing,  // absent content
  kNull,
  kEmpty,
};

// The content of a probe's messages: a string or a list of one part.
enum class Form { kString, kList };

Json content_of(std::string_view text, Form form) {
  if (form == Form::kString) return text;
  return Json::array({{{"type", "text"}, {"text", text}}});
}

Json message(std::string_view role, Json content) {
  return {{"role", role}, {"content", std::move(content)}};
}

Json call_message(Json arguments) {
  const Json function = {{"name", "get"}, {"arguments", std::move(arguments)}};
  return {{"role", "assistant"},
          {"tool_calls", Json::array({{{"id", kCallId}, {"type", "function"}, {"function", function}}})}};
}

Json result_message(Json content) {
  return {{"role", "tool"}, {"name", "get"}, {"tool_call_id", kCallId}, {"content", std::move(content)}};
}

Json with_content(Json message, Json content) {
  message["content"] = std::move(content);
  return message;
}

// Asks a template. The answers are kept in it, except where they depend on variables of one request.
class Prober {
 public:
  // `options` must outlive the prober, except for its messages.
  Prober(const ChatTemplate& chat_template, const ChatRenderOptions& options)
      : template_(chat_template), options_(options) {
    probe_.special_tokens = options.special_tokens;
    probe_.now = options.now;
    probe_.cancelled = options.cancelled;
  }

  bool cancelled() const { return cancelled_; }

  Answer content(std::string_view role) {
    constexpr std::array<std::pair<std::string_view, Question>, 5> kRoles = {{
        {"user", TemplateForms::kUserContent},
        {"system", TemplateForms::kSystemContent},
        {"developer", TemplateForms::kDeveloperContent},
        {"assistant", TemplateForms::kAssistantContent},
        {"tool", TemplateForms::kToolContent},
    }};
    for (const auto& [known, question] : kRoles) {
      if (known != role) continue;
      const Answer answer = ask(question, [&] { return find_content(role); });
      if (answer != kUnanswered || role == "user") return answer;
    }
    return content("user");
  }
  Answer arguments() {
    return ask(TemplateForms::kArguments, [&] { return find_arguments(); });
  }
  Answer absent() {
    return ask(TemplateForms::kAbsentContent, [&] { return find_absent(); });
  }

 private:
  template <typename Find>
  Answer ask(Question question, const Find& find) {
    auto& known = template_.forms().answers[question];
    auto answer = static_cast<Answer>(known.load(std::memory_order_relaxed));
    if (answer == 0) {
      const bool before = std::exchange(with_variables_, false);
      answer = find();
      with_variables_ = before;
      if (!cancelled_) known.store(answer, std::memory_order_relaxed);
    }
    const bool has_variables =
        !options_.kwargs.empty() || !options_.tools.is_null() || !options_.documents.is_null();
    if (answer != kUnanswered || !has_variables) return answer;
    Answer& of_request = of_request_[question];
    if (of_request == Answer{}) {
      const bool before = std::exchange(with_variables_, true);
      of_request = find();
      with_variables_ = before;
    }
    return of_request;
  }

  // Some templates require a system message. `other` is the form of its content.
  std::optional<std::string> render(Json messages, Form other) {
    auto text = render_once(messages);
    if (text || messages[0]["role"] == "system") return text;
    messages.insert(messages.begin(), message("system", content_of("hi", other)));
    return render_once(messages);
  }

  std::optional<std::string> render_once(const Json& messages) {
    probe_.messages = messages;
    probe_.kwargs = with_variables_ ? options_.kwargs : Json();
    probe_.tools = with_variables_ ? options_.tools : Json();
    probe_.documents = with_variables_ ? options_.documents : Json();
    auto text = template_.render(probe_, kProbeLimits);
    if (text.ok()) return std::move(text).value();
    cancelled_ |= text.failure().kind == ErrorKind::kOverloaded;
    return std::nullopt;
  }

  bool shows(Json messages, Form other, std::string_view shown) {
    const auto text = render(std::move(messages), other);
    return text && text->find(shown) != std::string::npos && text->find(kHidden) == std::string::npos;
  }

  Answer find_content(std::string_view role);
  bool reads_content(std::string_view role, const Json& content, Form other);
  Answer find_arguments();
  Answer find_absent();

  const ChatTemplate& template_;
  const ChatRenderOptions& options_;
  ChatRenderOptions probe_;
  std::array<Answer, TemplateForms::kNumQuestions> of_request_{};  // with its variables
  bool with_variables_ = false;
  bool cancelled_ = false;
};

// Whether a message with this content shows its text in some short conversation. `other` is the form of the
// messages around it.
bool Prober::reads_content(std::string_view role, const Json& content, Form other) {
  const auto filler = [&](std::string_view name) { return message(name, content_of("hi", other)); };
  const Json asked = role == "tool" ? result_message(content) : message(role, content);
  const Json user = filler("user");
  std::vector<Json> conversations;
  if (role == "user") {
    conversations = {Json::array({asked})};
  } else if (role == "assistant") {
    conversations = {Json::array({user, asked, user}), Json::array({user, asked})};
  } else if (role == "tool") {
    const Json call = with_content(call_message({{"a", "b"}}), content_of("", other));
    const Json text_call = with_content(call_message(R"({"a": "b"})"), content_of("", other));
    conversations = {Json::array({user, call, asked}), Json::array({user, text_call, asked}),
                     Json::array({user, filler("assistant"), asked})};
  } else {
    conversations = {Json::array({asked, user})};
  }
  return std::ranges::any_of(conversations,
                             [&](Json& messages) { return shows(std::move(messages), other, kShown); });
}

Answer Prober::find_content(std::string_view role) {
  const Json string = kShown;
  const Json list = Json::array({{{"type", "text"}, {"text", kShown}, {"quire", kHidden}}});
  const auto reads = [&](const Json& content) {
    return reads_content(role, content, Form::kString) || reads_content(role, content, Form::kList);
  };
  const bool strings = reads(string);
  const bool lists = reads(list);
  return strings && lists ? kBoth : lists ? kLists : strings ? kStrings : kUnanswered;
}

// The text of a call's arguments stays text where the template prints it as it is. Templates with a notation
// of their own for calls need the object, even if they print a text.
Answer Prober::find_arguments() {
  const Json object = {{"quire", kShown}};
  const std::string text = cat("{\"quire\": \"", kShown, "\"}");
  const std::string python = cat("{'quire': '", kShown, "'}");
  bool objects = false;
  bool own_notation = false;
  bool texts = false;
  for (const Form form : {Form::kString, Form::kList}) {
    const Json user = message("user", content_of("hi", form));
    const Json result = result_message(content_of("hi", form));
    for (const Json& content : {content_of("", form), Json("absent"), Json(nullptr)}) {
      const auto conversation = [&](const Json& arguments) {
        Json call = call_message(arguments);
        if (content != "absent") call = with_content(std::move(call), content);
        return Json::array({user, std::move(call), result});
      };
      const auto printed = render(conversation(object), form);
      const auto prints = [&](std::string_view part) { return printed->find(part) != std::string::npos; };
      objects = objects || printed;
      own_notation = own_notation || (printed && prints(kShown) && !prints(text) && !prints(python));
      texts = texts || shows(conversation(text), form, text);
    }
  }
  if (texts && !own_notation) return objects ? kObjectsAndTexts : kTexts;
  return objects ? kObjects : kUnanswered;
}

Answer Prober::find_absent() {
  const Json call = arguments() == kTexts ? call_message("{}") : call_message(Json::object());
  const std::array<std::pair<Answer, Json>, 3> candidates = {
      {{kMissing, call}, {kNull, with_content(call, nullptr)}, {kEmpty, with_content(call, "")}}};
  for (const auto& [answer, candidate] : candidates) {
    for (const Form form : {Form::kString, Form::kList}) {
      const Json user = message("user", content_of("hi", form));
      const Json result = result_message(content_of("hi", form));
      for (const Json& messages : {Json::array({user, candidate, result}), Json::array({user, candidate})}) {
        const auto text = render(messages, form);
        if (text && (answer != kNull || text->find("None") == std::string::npos)) return answer;
      }
    }
  }
  return kUnanswered;
}

// vLLM joins the texts of parts by line breaks, too.
Result<Json> joined(const Json& content, size_t index) {
  std::string text;
  for (size_t p = 0; p < content.size(); ++p) {
    const auto part = content[p].find("text");
    if (part == content[p].end() || !part->is_string()) {
      return Failure{ErrorKind::kUnsupported,
                     cat("messages[", index, "].content[", p,
                         "]: the chat template reads only text in messages of this role"),
                     "messages"};
    }
    if (p > 0) text += '\n';
    text += part->get_ref<const std::string&>();
  }
  return Json(std::move(text));
}

Answer answer_of(ContentFormat format, Prober& prober, const Json& changed) {
  if (format == ContentFormat::kString) return kStrings;
  if (format == ContentFormat::kOpenAi) return kLists;
  return prober.content(changed["role"].get_ref<const std::string&>());
}

// Python's notation, which templates print for objects.
std::string json_text(const Json& value) {
  jinja::Heap heap(SIZE_MAX, UINT64_MAX);
  return jinja::to_json(heap, jinja::from_json(heap, value), {});
}

Status fit_content(Json& changed, size_t index, ContentFormat format, Prober& prober) {
  const auto content = changed.find("content");
  if (content == changed.end()) {
    // Only calls are sent without content; nothing else is printed as null.
    const Answer answer = changed.contains("tool_calls") ? prober.absent() : kEmpty;
    if (answer == kNull) changed["content"] = nullptr;
    if (answer == kEmpty || answer == kUnanswered) changed["content"] = "";
    return {};
  }
  const Answer answer = answer_of(format, prober, changed);
  if (content->is_string() && answer == kLists) {
    *content = Json::array({{{"type", "text"}, {"text", *content}}});
  } else if (content->is_array() && (answer == kStrings || answer == kUnanswered)) {
    auto text = joined(*content, index);
    if (!text.ok()) return text.failure();
    *content = std::move(text).value();
  }
  return {};
}

void fit_arguments(Json& arguments, Prober& prober) {
  const Answer answer = prober.arguments();
  if (arguments.is_string() && answer != kTexts && answer != kObjectsAndTexts) {
    if (auto object = parse_request_json(arguments.get_ref<const std::string&>(), "arguments"); object.ok())
      arguments = std::move(object).value();
  } else if (arguments.is_object() && answer == kTexts) {
    arguments = json_text(arguments);
  }
}

}  // namespace

Status fit_messages(const ChatTemplate& chat_template, ContentFormat format, ChatRenderOptions& options) {
  Prober prober(chat_template, options);
  for (size_t i = 0; i < options.messages.size(); ++i) {
    Json& changed = options.messages[i];
    if (Status s = fit_content(changed, i, format, prober); !s.ok()) return s;
    if (const auto calls = changed.find("tool_calls"); calls != changed.end()) {
      for (Json& call : *calls) {
        if (const auto arguments = call["function"].find("arguments"); arguments != call["function"].end())
          fit_arguments(*arguments, prober);
      }
    }
    if (prober.cancelled())
      return Failure{ErrorKind::kOverloaded, "the rendering of the chat template was cancelled", ""};
  }
  return {};
}

}  // namespace quire
