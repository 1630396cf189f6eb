// The output of one choice of a chat as events (text/output/events.h), and events as JSON. Streams write the
// events as they come, and complete responses their fold, so that both say the same.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "contract/request_output.h"
#include "server/openai/generation_spec.h"
#include "server/openai/json_out.h"
#include "text/output/output_parser.h"

namespace quire {

// Not thread-safe.
class ChatOutput {
 public:
  // `reading` outlives this. `salt` makes the ids of calls different from those of other choices.
  ChatOutput(const OutputReading& reading, uint64_t salt);

  // Appends the events of the next part of the output, and at its end those of what was held back.
  void push(const CompletionDelta& delta, std::vector<OutputEvent>& events);

  // Whether no further output counts: there was a call, and calls are not parallel.
  bool done() const { return done_; }
  // Whether there are calls, and the output does not end within one.
  bool has_called() const { return last_call_complete_; }
  // Tokens that belong to the reasoning.
  int64_t num_reasoning_tokens() const { return num_reasoning_tokens_; }

 private:
  void push_part(std::string_view text, size_t offset, std::span<const TextMarker> markers,
                 std::span<const TokenId> tokens);
  void count_reasoning(size_t num_tokens, bool was_in_reasoning, size_t first_event);
  void take(std::vector<OutputEvent>& events);

  const OutputReading& reading_;
  uint64_t salt_;
  OutputParser parser_;
  std::vector<OutputEvent> parsed_;  // by the present call of push()
  int64_t num_reasoning_tokens_ = 0;
  bool done_ = false;
  bool last_call_complete_ = false;
};

// The fields of a delta that has one event; nothing for the end of a call.
void write_event(JsonOut& out, const OutputEvent& event, bool old_form);

// The fields of a message after its role: content, reasoning and calls.
void write_message_fields(JsonOut& out, std::span<const OutputEvent> events, bool old_form);

// The value of finish_reason for an output that ends with a call.
std::string_view call_finish_reason(bool old_form);

}  // namespace quire
