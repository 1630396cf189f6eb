// The chat templates of a model. Most models have one; others have one for requests with tools, or for
// retrieval.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "text/chat/chat_template.h"
#include "text/chat/messages.h"

namespace quire {

// Templates by name. Not changed after loading; any number of threads may use it at once.
class ChatTemplates {
 public:
  // nullopt: the model has a template of this name, but it cannot be read.
  void add(const std::string& name, std::optional<ChatTemplate> chat_template) {
    templates_.insert_or_assign(name, std::move(chat_template));
  }
  // Whether there is none that can be read.
  bool empty() const;
  // Null if there is no such template, or it cannot be read.
  const ChatTemplate* find(std::string_view name) const;
  // Whether the model has a template of this name, readable or not.
  bool has(std::string_view name) const { return templates_.contains(name); }

 private:
  std::map<std::string, std::optional<ChatTemplate>, std::less<>> templates_;
};

// The name of the template for a request, as in transformers: the one that the request names, "tool_use" for
// a request with tools, or "default". Empty if the request has a template of its own.
std::string template_name(const ChatTemplates& templates, const ChatRequest& request);

}  // namespace quire
