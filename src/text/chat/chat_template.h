// Renders the messages of a chat into the prompt of a model, as transformers' apply_chat_template does: a
// template of the Jinja language, run in a sandbox with limits on time and memory.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/error.h"
#include "text/chat/clock.h"

namespace quire {

namespace jinja {
class Program;
}

// What one rendering reads. JSON of the request is taken as it is: the template decides what it means.
struct ChatRenderOptions {
  nlohmann::ordered_json messages;          // array of objects
  nlohmann::ordered_json tools, documents;  // null when absent: the template sees none
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends inside of the last message, to be continued
  std::optional<std::string> bos_token, eos_token;  // nullopt: not defined in the template
  nlohmann::ordered_json kwargs;  // further variables, null or an object; they win over all but messages
  std::optional<LocalTime> now;   // for strftime_now; nullopt: the clock of this machine
  // transformers 5.20 and later also give a message's reasoning under the names `reasoning_content` and
  // `thinking`.
  bool alias_reasoning_fields = false;
};

// What a template may use. The memory is in addition to a multiple of what the request itself needs.
struct ChatRenderLimits {
  size_t max_bytes = size_t{24} << 20;  // of values that live and of text written
  uint64_t max_steps = 4'000'000;       // about one for each node of the template executed
};

// A parsed template: immutable, and any number of threads may render with it at once.
class ChatTemplate {
 public:
  // Throws Error "origin:line: what was expected". `origin` names the template in messages (a path).
  static ChatTemplate parse(std::string source, std::string origin);

  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // The prompt. Fails (kInvalidArgument) with the very words of raise_exception, or with what went wrong and
  // where.
  Result<std::string> render(const ChatRenderOptions& options) const;
  Result<std::string> render(const ChatRenderOptions& options, const ChatRenderLimits& limits) const;

  const std::string& source() const { return source_; }
  // Whether the template reads the variable `name` anywhere ("tools", "enable_thinking").
  bool uses(const std::string& name) const;

 private:
  ChatTemplate();
  std::string source_;
  std::unique_ptr<const jinja::Program> program_;
};

}  // namespace quire
