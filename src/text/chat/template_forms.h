// Passes messages to a template in the forms that it reads. transformers passes them as the client sent them;
// a template that was written for other forms then fails, or prints Python's notation of a list, or drops the
// text. What a template reads is found by rendering small conversations with it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/error.h"
#include "text/chat/messages.h"

namespace quire {

class ChatTemplate;
struct ChatRenderOptions;

// The known properties of a template, which owns them. Any thread may use them.
class TemplateForms {
 public:
  enum Question : uint8_t {
    kUserContent,
    kSystemContent,
    kDeveloperContent,
    kAssistantContent,
    kToolContent,
    kArguments,      // of tool calls
    kAbsentContent,  // of messages with tool calls
    kNumQuestions,
  };
  std::array<std::atomic<uint8_t>, kNumQuestions> answers{};  // 0 = not asked yet
};

// Changes the messages of `options`, which read_chat_request() has read:
// - A list of parts stays if the template reads lists in messages of this role; otherwise its texts are
// joined
//   by line breaks. A string becomes a list of one part if the template reads only lists.
// - The arguments of a tool call stay text if the template prints text as it is; otherwise they become the
//   object. An object becomes text if the template fails for objects.
// - Content that is absent stays absent unless the template fails for it.
// The template's variables other than the messages must be set, since they can decide what it reads. Fails if
// a part that is not text has to be joined, and like ChatTemplate::render if the rendering is cancelled.
Status fit_messages(const ChatTemplate& chat_template, ContentFormat format, ChatRenderOptions& options);

}  // namespace quire
