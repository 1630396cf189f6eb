// A conversation with a model in the terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/chat/attachments.h"
#include "cli/chat/chat_settings.h"
#include "cli/chat/interrupts.h"
#include "quire/llm.h"

namespace quire::cli {

// Size and times of an answer.
struct AnswerStats {
  int64_t num_tokens = 0;
  GenerationTimes times;
};

// "42 tokens, 123.4 tokens/s, first token after 35 ms"; the rate is that of the tokens after the first one.
// Empty without tokens.
std::string answer_stats_text(const AnswerStats& stats);

// Messages and their answers, or, if the model has no chat template, one text that the model continues after
// each message, which begins on a new line. All members are called by the main thread and throw Error; the
// conversation then is what it was before.
class Conversation {
 public:
  struct Output {
    bool markdown = false;  // render it
    bool terminal = false;  // stdout is a terminal, which gets no control characters and AnswerStats
    bool styles = false;
  };

  // `llm` and `interrupts` must outlive the conversation.
  Conversation(LLM& llm, Interrupts& interrupts, ChatSettings settings, Output output);

  bool continues_text() const { return continues_text_; }
  // Starts a new conversation. Throws Error if the model has no chat template, and with it no system prompt.
  void set_system(const std::string& text);
  void reset();
  // Attaches a file to the next message.
  void attach(const std::string& path) { attachments_.push_back(read_attachment(path)); }
  // Sends a message with its files, prints the answer as it is generated, and adds both.
  void ask(const std::string& message);
  // Replaces the last answer by another one.
  void regenerate();

  void save(const std::string& path) const;
  // Returns what was loaded, for people.
  std::string load(const std::string& path);

  void set(std::string_view name, const std::string& value);
  std::string settings_text() const { return chat_fields_text(settings_); }
  // The last answer, the conversation, the model and the cache, one line each.
  std::string stats_text() const;

 private:
  std::vector<TokenId> prompt() const;
  // Prints the answer to prompt().
  std::string respond(const SamplingParams& params);

  LLM& llm_;
  Interrupts& interrupts_;
  const ChatSettings defaults_;
  ChatSettings settings_;
  const Output output_;
  const bool continues_text_;
  std::string system_;
  std::vector<Attachment> attachments_;  // for the next message
  std::vector<ChatMessage> messages_;
  std::string text_;              // continues_text_: all of it
  size_t answer_begin_ = 0;       // continues_text_: of the last answer in text_
  bool has_answer_ = false;       // regenerate() can replace the end of messages_ or text_
  uint64_t num_regenerated_ = 0;  // in a row
  AnswerStats last_;
};

}  // namespace quire::cli
