// Renders the messages of a chat as the prompt of a model, like transformers' apply_chat_template: a Jinja
// template that runs in a sandbox with limits on time and memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "text/chat/clock.h"
#include "text/chat/request_json.h"

namespace quire {

class TemplateForms;
namespace jinja {
class Program;
}

// Inputs of one rendering. JSON of the request is passed on unchanged; the template interprets it.
struct ChatRenderOptions {
  Json messages;          // array of objects
  Json tools, documents;  // null if absent; the template sees none
  bool add_generation_prompt = true;
  // The prompt ends within the last message, so that the model continues it.
  bool continue_final_message = false;
  std::map<std::string, std::string>
      special_tokens;            // bos_token, image_token, ...: variables of the template
  Json kwargs;                   // additional variables, null or an object; they override all except messages
  std::optional<LocalTime> now;  // for strftime_now; nullopt = the current time
  // Rendering fails with kOverloaded soon after the flag is set; null = it cannot be cancelled.
  const std::atomic<bool>* cancelled = nullptr;
};

// Limits of a template. The memory limit is in addition to a multiple of the size of the request.
struct ChatRenderLimits {
  size_t max_bytes = size_t{24} << 20;  // of live values and of output
  uint64_t max_steps = 4'000'000;       // about one per executed node of the template
};

// A parsed template. Immutable; any number of threads may render with it at once.
class ChatTemplate {
 public:
  // Throws Error "origin:line: problem". `origin` names the template in messages (a path).
  static ChatTemplate parse(std::string source, std::string origin);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // Returns the prompt. Fails (kInvalidArgument) with the exact message of raise_exception, or with the error
  // and its line.
  Result<std::string> render(const ChatRenderOptions& options) const;
  Result<std::string> render(const ChatRenderOptions& options, const ChatRenderLimits& limits) const;

  const std::string& source() const { return source_; }
  // Whether the template refers to the variable `name` ("tools", "enable_thinking").
  bool uses(const std::string& name) const;
  // For fit_messages().
  TemplateForms& forms() const { return *forms_; }

 private:
  ChatTemplate();
  std::string source_;
  std::unique_ptr<const jinja::Program> program_;
  std::unique_ptr<TemplateForms> forms_;
};

}  // namespace quire
