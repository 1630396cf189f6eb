#include "cli/chat/conversation.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "base/counted.h"
#include "base/error.h"
#include "base/strings.h"
#include "cli/chat/conversation_file.h"
#include "cli/chat/markdown.h"
#include "cli/terminal.h"

namespace quire::cli {
namespace {

// A text without an end token could be continued for the rest of the context.
constexpr int32_t kMaxContinuationTokens = 256;

// Prints a response while it is generated.
class ResponsePrinter {
 public:
  explicit ResponsePrinter(const Conversation::Output& output)
      : output_(output), renderer_(terminal_size(STDOUT_FILENO).columns) {}

  void print(const std::string& piece) {
    std::cout << (output_.markdown   ? renderer_.feed(piece)
                  : output_.terminal ? without_controls(piece)
                                     : piece)
              << std::flush;
    ends_line_ = piece.empty() ? ends_line_ : piece.back() == '\n';
  }
  // Ends the response with a remark why it was stopped, or an empty one.
  void finish(const std::string& remark) {
    if (output_.markdown) {
      std::cout << renderer_.finish() << (remark.empty() ? "" : remark + "\n") << std::flush;
    } else {
      std::cout << (remark.empty() || ends_line_ ? "" : " ") << remark << "\n" << std::flush;
    }
  }

 private:
  const Conversation::Output& output_;
  MarkdownRenderer renderer_;
  bool ends_line_ = true;
};

std::string time_text(double seconds) {
  return seconds < 1.0 ? cat(fixed(1e3 * seconds, 0), " ms") : cat(fixed(seconds, 2), " s");
}

std::string percent_text(int64_t part, int64_t whole) {
  return whole == 0 ? "0.0 %"
                    : cat(fixed(100.0 * static_cast<double>(part) / static_cast<double>(whole), 1), " %");
}

}  // namespace

std::string answer_stats_text(const AnswerStats& stats) {
  if (stats.num_tokens == 0) return {};
  std::string text = counted(stats.num_tokens, "token");
  const double decoding = stats.times.total - stats.times.first_token;
  if (stats.num_tokens > 1 && decoding > 0.0)
    text += cat(", ", fixed(static_cast<double>(stats.num_tokens - 1) / decoding, 1), " tokens/s");
  return text + ", first token after " + time_text(stats.times.first_token);
}

Conversation::Conversation(LLM& llm, Interrupts& interrupts, ChatSettings settings, Output output)
    : llm_(llm),
      interrupts_(interrupts),
      defaults_(std::move(settings)),
      settings_(defaults_),
      output_(output),
      continues_text_(!llm.model().has_chat_template) {}

void Conversation::set_system(const std::string& text) {
  if (continues_text_ && !text.empty())
    throw Error("the model has no chat template, and with it no system prompt");
  system_ = text;
  reset();
}

void Conversation::reset() {
  messages_.clear();
  text_.clear();
  attachments_.clear();
  has_answer_ = false;
  if (!system_.empty()) messages_.push_back({"system", system_});
}

void Conversation::ask(const std::string& message) {
  std::vector<Attachment> files = attachments_;
  std::ranges::move(read_mentions(message), std::back_inserter(files));
  const std::string sent = with_attachments(message, files);
  const size_t text_size = text_.size();
  if (continues_text_) {
    if (!text_.empty() && text_.back() != '\n') text_ += '\n';
    text_ += sent;
  } else {
    messages_.push_back({"user", sent});
  }
  std::string answer;
  try {
    answer = respond(settings_.sampling);
  } catch (const Error&) {
    text_.resize(text_size);
    if (!continues_text_) messages_.pop_back();
    throw;
  }
  if (continues_text_) {
    answer_begin_ = text_.size();
    text_ += answer;
  } else {
    messages_.push_back({"assistant", std::move(answer)});
  }
  has_answer_ = true;
  num_regenerated_ = 0;
  attachments_.clear();
}

void Conversation::regenerate() {
  if (!has_answer_) throw Error("there is no answer to replace");
  std::string old;
  if (continues_text_) {
    old = text_.substr(answer_begin_);
    text_.resize(answer_begin_);
  } else {
    old = std::move(messages_.back().content);
    messages_.pop_back();
  }
  const auto add = [&](std::string answer) {
    if (continues_text_) {
      text_ += answer;
    } else {
      messages_.push_back({"assistant", std::move(answer)});
    }
  };
  SamplingParams params = settings_.sampling;
  // The same seed would give the same answer.
  if (params.seed)
    params.seed = static_cast<int64_t>(static_cast<uint64_t>(*params.seed) + num_regenerated_ + 1);
  try {
    add(respond(params));
  } catch (const Error&) {
    add(std::move(old));
    throw;
  }
  ++num_regenerated_;
}

std::vector<TokenId> Conversation::prompt() const {
  return continues_text_ ? llm_.tokenize(text_) : llm_.chat_prompt(messages_);
}

std::string Conversation::respond(const SamplingParams& wanted) {
  SamplingParams params = wanted;
  std::vector<TokenId> ids = prompt();
  const int32_t room = llm_.model().max_model_len - static_cast<int32_t>(ids.size());
  if (room <= 0)
    throw Error("the conversation exceeds the maximum length of the model; /reset starts a new one");
  if (params.max_tokens <= 0 && continues_text_) params.max_tokens = kMaxContinuationTokens;
  if (params.max_tokens <= 0 || params.max_tokens > room) params.max_tokens = room;
  Prompt prompt_of_chat(std::move(ids));
  prompt_of_chat.lora = settings_.lora;
  Stream stream = llm_.generate_stream(prompt_of_chat, params);
  ResponsePrinter printer(output_);
  std::string response;
  interrupts_.watch(&stream);
  try {
    while (const auto piece = stream.next()) {
      response += *piece;
      printer.print(*piece);
    }
  } catch (...) {
    interrupts_.watch(nullptr);
    throw;
  }
  interrupts_.watch(nullptr);
  const Completion& completion = stream.completion();
  const std::string cut =
      params.max_tokens == room
          ? "[stopped: context is full, /reset starts a new one]"
          : cat("[stopped after ", counted(params.max_tokens, "token"), ", the value of max_tokens]");
  printer.finish(completion.finish_reason == "abort"    ? "[stopped]"
                 : completion.finish_reason == "length" ? cut
                                                        : "");
  last_ = {static_cast<int64_t>(completion.token_ids.size()), stream.times()};
  const std::string line = answer_stats_text(last_);
  if (output_.terminal && settings_.stats && !line.empty())
    std::cout << (output_.styles ? "\x1b[2m" : "") << line << (output_.styles ? "\x1b[0m" : "") << "\n"
              << std::flush;
  return response;
}

void Conversation::save(const std::string& path) const {
  save_conversation(path, {messages_, text_});
}

std::string Conversation::load(const std::string& path) {
  SavedConversation saved = load_conversation(path);
  if (continues_text_ && !saved.messages.empty())
    throw Error(cat(path, " has messages, but the model has no chat template"));
  if (!continues_text_ && saved.messages.empty())
    throw Error(cat(path, " has no messages, but a text for a model without a chat template"));
  reset();
  messages_ = std::move(saved.messages);
  text_ = std::move(saved.text);
  if (continues_text_) return counted(static_cast<int64_t>(text_.size()), "byte") + " of text";
  system_ = messages_.front().role == "system" ? messages_.front().content : "";
  has_answer_ = messages_.back().role == "assistant";
  num_regenerated_ = 0;
  return counted(static_cast<int64_t>(messages_.size()), "message");
}

void Conversation::set(std::string_view name, const std::string& value) {
  set_chat_field(settings_, defaults_, name, value);
}

std::string Conversation::stats_text() const {
  const RunStatistics run = llm_.statistics();
  const ModelDescription model = llm_.model();
  const bool empty = continues_text_ ? text_.empty() : messages_.empty();
  const auto used = empty ? int64_t{0} : static_cast<int64_t>(prompt().size());
  const std::string last = answer_stats_text(last_);
  const int64_t used_blocks = run.num_blocks - run.num_free_blocks;
  return cat("Last answer    ", last.empty() ? "none" : last, "\nContext        ", used, " of ",
             model.max_model_len, " tokens, ", percent_text(used, model.max_model_len), "\nSince start    ",
             counted(run.num_requests, "answer"), ", ", counted(run.generation_tokens, "token"),
             " generated\nPrompts        ", counted(run.prompt_tokens, "token"), ", ",
             percent_text(run.prefix_cache_hits, run.prefix_cache_queries),
             " from the prefix cache\nKV cache       ", used_blocks, " of ", run.num_blocks,
             " blocks in use\n");
}

}  // namespace quire::cli
