#include "engine/chat_context.h"

#include <cstdlib>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "text/chat/template_forms.h"
#include "text/chat/tools_as_text.h"

namespace quire {
namespace {

Result<std::string> render_fitted(const ChatTemplate& chat_template, ContentFormat format,
                                  ChatRenderOptions options) {
  if (const Status s = fit_messages(chat_template, format, options); !s.ok()) return s.failure();
  return chat_template.render(options);
}

Result<std::string> render_with(const ChatTemplate& chat_template, ContentFormat format,
                                const std::string& how_to_call, ChatRenderOptions options) {
  if (how_to_call.empty() || options.tools.is_null() || chat_template.uses("tools"))
    return render_fitted(chat_template, format, std::move(options));
  if (chat_template.source().find("tool_calls") == std::string::npos) write_calls_as_text(options.messages);
  ChatRenderOptions for_user = options;
  write_tools_as_text(options.messages, options.tools, how_to_call);
  Result<std::string> prompt = render_fitted(chat_template, format, std::move(options));
  if (prompt.ok() || !write_tools_for_user(for_user.messages, for_user.tools, how_to_call)) return prompt;
  return render_fitted(chat_template, format, std::move(for_user));
}

}  // namespace

Result<std::string> render_chat(const ChatTemplates& templates, const Tokenizer* tokenizer,
                                ChatRequest request) {
  const std::string name = template_name(templates, request);
  ChatRenderOptions options;
  options.messages = std::move(request.messages);
  options.tools = std::move(request.tools);
  options.documents = std::move(request.documents);
  options.kwargs = std::move(request.kwargs);
  options.add_generation_prompt = request.add_generation_prompt;
  options.continue_final_message = request.continue_final_message;
  options.special_tokens = std::move(request.special_tokens);
  if (tokenizer != nullptr) {
    const auto& named = tokenizer->named_tokens();
    options.special_tokens.insert(named.begin(), named.end());
  }
  if (const char* text = std::getenv("QUIRE_NOW")) {
    const auto now = parse_now(text);
    if (!now.ok()) throw Error(cat("QUIRE_NOW: ", now.failure().message));
    options.now = *now;
  }
  if (!name.empty()) {
    const ChatTemplate* found = templates.find(name);
    if (found == nullptr)
      return invalid_argument(cat("The model has no chat template '", name, "' that can be read."),
                              "chat_template");
    return render_with(*found, request.content_format, request.how_to_call, std::move(options));
  }
  std::optional<ChatTemplate> given;
  try {
    given = ChatTemplate::parse(std::move(request.chat_template), "chat_template");
  } catch (const Error& error) {
    return invalid_argument(error.what(), "chat_template");
  }
  return render_with(*given, request.content_format, request.how_to_call, std::move(options));
}

}  // namespace quire
