#include "server/openai/chat_output.h"

#include <algorithm>

namespace quire {
namespace {

// Both names are in use: `reasoning` in vLLM's newer versions, `reasoning_content` elsewhere.
void write_reasoning_fields(JsonOut& out, std::string_view text) {
  out.key("reasoning").string(text).key("reasoning_content").string(text);
}

void write_call_in_old_form(JsonOut& out, const ParsedCall& call) {
  out.key("function_call").begin_object();
  out.key("name").string(call.name).key("arguments").string(call.arguments).end_object();
}

}  // namespace

ChatOutput::ChatOutput(const OutputReading& reading, uint64_t salt)
    : reading_(reading), salt_(salt), parser_(reading.parser) {}

void ChatOutput::count_reasoning(size_t num_tokens, bool was_in_reasoning, size_t first_event) {
  if (was_in_reasoning || has_reasoning(std::span(parsed_).subspan(first_event)))
    num_reasoning_tokens_ += static_cast<int64_t>(num_tokens);
}

// Reads the tokens one by one, so that the number of tokens in a delta changes nothing.
void ChatOutput::push(const CompletionDelta& delta, std::vector<OutputEvent>& events) {
  if (done_) return;
  parsed_.clear();
  const std::string_view text = delta.text;
  const std::span<const TextMarker> markers(delta.markers);
  const std::span<const TokenId> tokens(delta.token_ids);
  size_t begin = 0;         // bytes of text that are processed
  size_t first_marker = 0;  // number of markers that are processed
  for (size_t i = 0; i + 1 < delta.text_ends.size(); ++i) {
    const size_t end = delta.text_ends[i];
    // A marker without text of its own stands where the token before it ends.
    const auto is_here = [&](const TextMarker& marker) {
      const size_t marker_end = marker.offset + marker.size;
      return marker_end < end || (marker_end == end && (marker.size > 0 || marker.token == tokens[i]));
    };
    size_t last_marker = first_marker;
    while (last_marker < markers.size() && is_here(markers[last_marker])) ++last_marker;
    push_part(text.substr(begin, end - begin), begin,
              markers.subspan(first_marker, last_marker - first_marker), tokens.subspan(i, 1));
    begin = end;
    first_marker = last_marker;
  }
  const size_t first_token = delta.text_ends.empty() ? 0 : delta.text_ends.size() - 1;
  push_part(text.substr(begin), begin, markers.subspan(first_marker), tokens.subspan(first_token));
  if (delta.finish_reason != FinishReason::kNone) parser_.finish(parsed_);
  take(events);
}

// offset: of `text` in the delta, to which the offsets of the markers refer.
void ChatOutput::push_part(std::string_view text, size_t offset, std::span<const TextMarker> markers,
                           std::span<const TokenId> tokens) {
  size_t begin = 0;  // bytes of text that are processed
  for (const TextMarker& marker : markers) {
    bool in_reasoning = parser_.in_reasoning();
    size_t first_event = parsed_.size();
    parser_.push(text.substr(begin, marker.offset - offset - begin), parsed_);
    // The token of a marker whose text was held back is one of an earlier part.
    const auto at = std::ranges::find(tokens, marker.token);
    const bool own = at != tokens.end();
    if (own) {
      const auto before = static_cast<size_t>(at - tokens.begin());
      count_reasoning(before, in_reasoning, first_event);
      tokens = tokens.subspan(before + 1);
    }
    in_reasoning = parser_.in_reasoning();
    first_event = parsed_.size();
    parser_.push_marker(marker.token, parsed_);
    // The token that ends reasoning is not part of it.
    if (own) count_reasoning(1, in_reasoning && parser_.in_reasoning(), first_event);
    begin = marker.offset - offset + marker.size;
  }
  const bool in_reasoning = parser_.in_reasoning();
  const size_t first_event = parsed_.size();
  parser_.push(text.substr(begin), parsed_);
  count_reasoning(tokens.size(), in_reasoning, first_event);
}

// Passes on what the response shows.
void ChatOutput::take(std::vector<OutputEvent>& events) {
  for (OutputEvent& event : parsed_) {
    if (done_) return;
    switch (event.type) {
      case OutputEventType::kReasoning:
        if (!reading_.show_reasoning) continue;
        break;
      case OutputEventType::kText:
        break;
      case OutputEventType::kCallBegin:
        last_call_complete_ = false;
        if (reading_.calls_are_text) continue;
        event.id = call_id(reading_.parser.calls, event.index, event.name, event.id, salt_);
        break;
      case OutputEventType::kArguments:
        if (reading_.calls_are_text) event.type = OutputEventType::kText;
        break;
      case OutputEventType::kCallEnd:
        if (reading_.calls_are_text) continue;
        last_call_complete_ = true;
        done_ = !reading_.parallel;
        break;
    }
    const bool joins = !events.empty() && events.back().type == event.type &&
                       event.type != OutputEventType::kCallBegin && event.type != OutputEventType::kCallEnd;
    if (joins) {
      events.back().text += event.text;
    } else {
      events.push_back(std::move(event));
    }
  }
}

void write_event(JsonOut& out, const OutputEvent& event, bool old_form) {
  const bool begins = event.type == OutputEventType::kCallBegin;
  switch (event.type) {
    case OutputEventType::kText:
      out.key("content").string(event.text);
      return;
    case OutputEventType::kReasoning:
      write_reasoning_fields(out, event.text);
      return;
    case OutputEventType::kCallEnd:
      return;
    case OutputEventType::kCallBegin:
    case OutputEventType::kArguments:
      break;
  }
  if (old_form) {
    out.key("function_call").begin_object();
  } else {
    out.key("tool_calls").begin_array().begin_object().key("index").integer(event.index);
    if (begins) out.key("id").string(event.id).key("type").string("function");
    out.key("function").begin_object();
  }
  if (begins) out.key("name").string(event.name);
  out.key("arguments").string(event.text).end_object();
  if (!old_form) out.end_object().end_array();
}

void write_message_fields(JsonOut& out, std::span<const OutputEvent> events, bool old_form) {
  const ParsedOutput output = fold_events(events);
  out.key("content");
  if (output.text.empty() && !(output.calls.empty() && output.reasoning.empty())) {
    out.null();
  } else {
    out.string(output.text);
  }
  out.key("refusal").null();
  if (!output.reasoning.empty()) write_reasoning_fields(out, output.reasoning);
  if (output.calls.empty()) return;
  if (old_form) return write_call_in_old_form(out, output.calls.front());
  out.key("tool_calls").begin_array();
  for (const ParsedCall& call : output.calls) {
    out.begin_object().key("id").string(call.id).key("type").string("function").key("function");
    out.begin_object().key("name").string(call.name).key("arguments").string(call.arguments);
    out.end_object().end_object();
  }
  out.end_array();
}

std::string_view call_finish_reason(bool old_form) {
  return old_form ? "function_call" : "tool_calls";
}

}  // namespace quire
