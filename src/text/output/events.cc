#include "text/output/events.h"

#include <algorithm>

namespace quire {

bool has_reasoning(std::span<const OutputEvent> events) {
  return std::ranges::find(events, OutputEventType::kReasoning, &OutputEvent::type) != events.end();
}

ParsedOutput fold_events(std::span<const OutputEvent> events) {
  ParsedOutput result;
  for (const auto& event : events) {
    switch (event.type) {
      case OutputEventType::kText:
        result.text += event.text;
        break;
      case OutputEventType::kReasoning:
        result.reasoning += event.text;
        break;
      case OutputEventType::kCallBegin:
        result.calls.push_back({event.id, event.name, {}, false});
        break;
      case OutputEventType::kArguments:
        if (!result.calls.empty()) result.calls.back().arguments += event.text;
        break;
      case OutputEventType::kCallEnd:
        if (!result.calls.empty()) result.calls.back().complete = true;
        break;
    }
  }
  return result;
}

void EventWriter::begin_call(std::string_view name, std::string_view id) {
  if (in_call_) end_call();
  OutputEvent event;
  event.type = OutputEventType::kCallBegin;
  event.index = num_calls_++;
  event.name = name;
  event.id = id;
  out_->push_back(std::move(event));
  in_call_ = true;
  any_arguments_ = false;
}

void EventWriter::arguments(std::string_view bytes) {
  any_arguments_ |= !bytes.empty();
  append(OutputEventType::kArguments, bytes);
}

void EventWriter::end_arguments() {
  if (in_call_ && !any_arguments_) arguments("{}");
}

void EventWriter::end_call() {
  if (!in_call_) return;
  end_arguments();
  in_call_ = false;
  OutputEvent event;
  event.type = OutputEventType::kCallEnd;
  event.index = num_calls_ - 1;
  out_->push_back(std::move(event));
}

void EventWriter::append(OutputEventType type, std::string_view bytes) {
  if (bytes.empty()) return;
  if (out_->empty() || out_->back().type != type) {
    OutputEvent event;
    event.type = type;
    if (type == OutputEventType::kArguments) event.index = num_calls_ - 1;
    out_->push_back(std::move(event));
  }
  out_->back().text += bytes;
}

}  // namespace quire
