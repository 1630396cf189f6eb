// The parts of a model's output: ordinary text, reasoning and tool calls, as a sequence of events that
// streamed and complete responses are made of.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

enum class OutputEventType : uint8_t { kText, kReasoning, kCallBegin, kArguments, kCallEnd };

struct OutputEvent {
  OutputEventType type = OutputEventType::kText;
  int index = 0;     // number of the call
  std::string text;  // of kText and kReasoning; the bytes of kArguments
  std::string id;    // of kCallBegin; "" if the output has none
  std::string name;  // of kCallBegin
};

struct ParsedCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON
  bool complete = false;  // false if the output ended within the call
};

struct ParsedOutput {
  std::string reasoning;
  std::string text;
  std::vector<ParsedCall> calls;
};

bool has_reasoning(std::span<const OutputEvent> events);

// The fold of the events of a complete output.
ParsedOutput fold_events(std::span<const OutputEvent> events);

// Appends events to a vector, and joins neighbors of the same type there. One per parser.
class EventWriter {
 public:
  void write_to(std::vector<OutputEvent>& out) { out_ = &out; }

  void text(std::string_view bytes) { append(OutputEventType::kText, bytes); }
  void reasoning(std::string_view bytes) { append(OutputEventType::kReasoning, bytes); }
  void begin_call(std::string_view name, std::string_view id);
  void arguments(std::string_view bytes);
  // Arguments that are absent are {}.
  void end_arguments();
  void end_call();

  bool in_call() const { return in_call_; }
  int num_calls() const { return num_calls_; }

 private:
  void append(OutputEventType type, std::string_view bytes);

  std::vector<OutputEvent>* out_ = nullptr;
  int num_calls_ = 0;
  bool in_call_ = false;
  bool any_arguments_ = false;  // of this call
};

}  // namespace quire
