#include "text/chat/chat_template.h"

#include <algorithm>
#include <new>

#include "text/chat/continue_message.h"
#include "text/chat/jinja/interpreter.h"
#include "text/chat/jinja/json_text.h"
#include "text/chat/jinja/parser.h"
#include "text/chat/template_forms.h"

namespace quire {
namespace {

// The value of a variable of the template; missing if it is not defined.
jinja::Value variable(jinja::Heap& heap, const ChatRenderOptions& options, const Json& messages,
                      const std::string& name) {
  if (name == "messages") return jinja::from_json(heap, messages);
  if (options.kwargs.is_object()) {
    if (const auto at = options.kwargs.find(name); at != options.kwargs.end())
      return jinja::from_json(heap, *at);
  }
  if (name == "tools") return jinja::from_json(heap, options.tools);
  if (name == "documents") return jinja::from_json(heap, options.documents);
  if (name == "add_generation_prompt") return jinja::Value::boolean(options.add_generation_prompt);
  if (const auto token = options.special_tokens.find(name); token != options.special_tokens.end())
    return heap.string(token->second);
  if (const auto* global = jinja::find_global(name))
    return jinja::Value::of(heap.create<jinja::Function>(global));
  return {};
}

Failure to_failure(const jinja::RenderError& error, const std::string& origin, int line) {
  if (error.kind == jinja::ErrorClass::kRaised) return invalid_argument(error.message, "messages");
  if (error.kind == jinja::ErrorClass::kCancelled)
    return {ErrorKind::kOverloaded, "the rendering of the chat template was cancelled", ""};
  return invalid_argument(
      "the chat template failed: " + error.message + " (" + origin + ":" + std::to_string(line) + ")",
      "messages");
}

}  // namespace

ChatTemplate::ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

ChatTemplate ChatTemplate::parse(std::string source, std::string origin) {
  auto program = std::make_unique<jinja::Program>();
  try {
    jinja::parse_program(source, *program);
  } catch (const jinja::SyntaxError& error) {
    throw Error(origin + ":" + std::to_string(error.line) + ": " + error.message);
  }
  program->origin = std::move(origin);
  ChatTemplate result;
  result.source_ = std::move(source);
  result.program_ = std::move(program);
  result.forms_ = std::make_unique<TemplateForms>();
  return result;
}

bool ChatTemplate::uses(const std::string& name) const {
  const auto& names = program_->context_names;
  return std::any_of(names.begin(), names.end(), [&](const jinja::Value& n) { return n.str() == name; });
}

Result<std::string> ChatTemplate::render(const ChatRenderOptions& options) const {
  return render(options, ChatRenderLimits{});
}

Result<std::string> ChatTemplate::render(const ChatRenderOptions& options,
                                         const ChatRenderLimits& limits) const {
  if (!options.messages.is_array()) return invalid_argument("messages must be an array", "messages");
  if (!options.kwargs.is_null() && !options.kwargs.is_object()) {
    return invalid_argument("chat_template_kwargs must be an object", "chat_template_kwargs");
  }
  if (options.kwargs.contains("messages")) {
    return invalid_argument("chat_template_kwargs may not set 'messages'", "chat_template_kwargs");
  }
  PreparedMessages prepared;
  if (auto status = prepare_messages(options, source_, prepared); !status.ok()) return status.failure();

  // The limits apply to the template, not to the values of the request, which the server has already limited.
  jinja::Heap heap(SIZE_MAX, UINT64_MAX);
  heap.set_cancelled(options.cancelled);
  const LocalTime now = options.now ? *options.now : local_time_now();
  int line = 0;
  try {
    std::vector<jinja::Value> context;
    context.reserve(program_->context_names.size());
    for (const auto& name : program_->context_names) {
      context.push_back(variable(heap, options, prepared.messages(options), name.str()));
    }
    heap.set_limit(heap.live() * 4 + limits.max_bytes);
    heap.set_max_steps(limits.max_steps + heap.live() / 16);
    jinja::Interpreter interpreter(*program_, heap, now, std::move(context));
    try {
      std::string text = interpreter.run();
      return options.continue_final_message ? cut_at_tag(std::move(text), prepared)
                                            : Result<std::string>(std::move(text));
    } catch (...) {
      line = interpreter.line();
      throw;
    }
  } catch (const jinja::RenderError& error) {
    return to_failure(error, program_->origin, line);
  } catch (const std::bad_alloc&) {
    return Failure{ErrorKind::kInternal, "out of memory while rendering the chat template", "messages"};
  }
}

}  // namespace quire
