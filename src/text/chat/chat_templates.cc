#include "text/chat/chat_templates.h"

#include <algorithm>

namespace quire {

bool ChatTemplates::empty() const {
  return std::ranges::none_of(templates_, [](const auto& entry) { return entry.second.has_value(); });
}

const ChatTemplate* ChatTemplates::find(std::string_view name) const {
  const auto it = templates_.find(name);
  return it == templates_.end() || !it->second ? nullptr : &*it->second;
}

std::string template_name(const ChatTemplates& templates, const ChatRequest& request) {
  if (!request.chat_template.empty())
    return templates.has(request.chat_template) ? request.chat_template : std::string();
  return !request.tools.is_null() && templates.has("tool_use") ? "tool_use" : "default";
}

}  // namespace quire
