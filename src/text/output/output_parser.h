// The streaming parser of a model's output: reasoning, text and tool calls.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/ids.h"
#include "text/output/call_machine.h"
#include "text/output/events.h"
#include "text/output/formats.h"
#include "text/output/tool_set.h"

namespace quire {

// The beginning of an output.
enum class OutputStart : uint8_t {
  kDefault,    // as the row of the reasoning says
  kText,       // text, or the beginning of reasoning
  kReasoning,  // the prompt has opened a reasoning block
  kCall,       // the prompt ends with the marker of a call
};

// Reads the end of a rendered prompt: a template may open or close the reasoning itself.
OutputStart output_start(const CallFormat* calls, const ReasoningFormat* reasoning, std::string_view prompt);

struct OutputParserOptions {
  const CallFormat* calls = nullptr;           // null = calls are text
  const ReasoningFormat* reasoning = nullptr;  // null = reasoning is text
  std::shared_ptr<const ToolSet> tools;        // null = unknown
  OutputStart start = OutputStart::kDefault;
  // The token whose text is exactly this marker. A marker with a token of its own counts only as that token,
  // not as the same characters in other tokens. Unset: markers are looked for in the text.
  std::function<std::optional<TokenId>(std::string_view)> token_of;
};

// Parses one output. Each byte is processed alone, so events depend on the bytes only and not on how they are
// divided into pieces. The time per byte and the memory do not depend on the length of the output. Text is
// held back only while it may be the beginning of a marker or of a call. Not thread-safe; one per sequence.
class OutputParser {
 public:
  explicit OutputParser(OutputParserOptions options);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;

  // Appends the events of the next bytes. They need not end at characters.
  void push(std::string_view bytes, std::vector<OutputEvent>& events);
  // Whether the token is to be passed to push_marker() even if special tokens are skipped.
  bool is_marker(TokenId id) const;
  // The tokens for which is_marker() is true, ascending.
  std::vector<TokenId> marker_tokens() const;
  void push_marker(TokenId id, std::vector<OutputEvent>& events);
  // Appends what was held back. Nothing may be pushed after it. A call that is not complete has no kCallEnd.
  void finish(std::vector<OutputEvent>& events);

  bool in_reasoning() const;
  // Whether there is reasoning now or there can be later.
  bool may_reason() const;

 private:
  enum class Mode : uint8_t { kText, kReasoning, kCalls };
  struct KnownMarker {
    Marker marker;
    std::optional<TokenId> token;
  };

  void add_markers(std::span<const Marker> markers);
  MarkerRoles expected() const;
  bool reasoning_may_begin() const;
  void drain(bool at_end);
  void handle_byte(char c);
  void handle_marker(const Marker& marker);
  void text_byte(char c);
  void reasoning_byte(char c);
  // The text that comes before the output, if the format has one.
  void write_first();
  void write_text(std::string_view bytes);
  void write_reasoning(std::string_view bytes);
  void begin_reasoning();
  void end_reasoning();
  void begin_calls(const Marker& marker);
  bool begin_bare_calls(char c);
  void leave_calls();
  void refuse_calls();
  // Returns whether the byte or marker is to be looked at again.
  bool apply(MachineStep step, char last);

  OutputParserOptions options_;
  std::vector<KnownMarker> markers_;
  std::vector<std::pair<TokenId, std::string>> marker_parts_;  // special tokens within longer markers
  std::unique_ptr<EventWriter> events_;
  std::unique_ptr<CallReader> calls_, list_;  // list_: JSON after the marker of a format with names
  CallReader* reader_ = nullptr;              // calls_ or list_
  Mode mode_ = Mode::kText;
  Mode before_calls_ = Mode::kText;
  bool fresh_ = true;        // the text has only white space so far, which is in space_
  bool after_call_ = false;  // white space after a call is dropped
  bool any_text_ = false;
  bool first_written_ = false;
  bool reasoning_ended_ = false;
  bool any_reasoning_ = false;  // in this block
  bool newline_ = false;        // a line break of the reasoning that belongs to it if more follows
  bool skip_newline_ = false;
  size_t skipped_ = 0;  // bytes of ReasoningFormat::skip that have been seen
  std::string space_;
  std::string held_;  // bytes that may be the beginning of a marker
};

// The id of a call for the client: that of the output, or one of the format's form. `salt` makes ids of
// different outputs different.
std::string call_id(const CallFormat* format, int index, std::string_view name, std::string_view id,
                    uint64_t salt);

}  // namespace quire
