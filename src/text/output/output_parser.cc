#include "text/output/output_parser.h"

#include <algorithm>

namespace quire {
namespace {

using R = MarkerRole;

constexpr size_t kMaxSpace = 64;
constexpr size_t kNoSkip = SIZE_MAX;

std::string_view without_trailing_space(std::string_view text) {
  while (!text.empty() && is_json_space(text.back())) text.remove_suffix(1);
  return text;
}

// Special tokens in a marker that consists of more than one token: <|...|> and [...].
std::vector<std::string_view> special_parts(std::string_view marker) {
  std::vector<std::string_view> parts;
  for (size_t i = 0; i < marker.size(); ++i) {
    const char close = marker[i] == '<' ? '>' : marker[i] == '[' ? ']' : '\0';
    if (close == '\0') continue;
    const size_t end = marker.find(close, i);
    if (end == std::string_view::npos) break;
    parts.push_back(marker.substr(i, end + 1 - i));
    i = end;
  }
  return parts;
}

}  // namespace

bool is_name_byte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == ':' || c == '/' || byte >= 0x80;
}

std::unique_ptr<CallReader> make_call_reader(const MachineContext& context) {
  switch (context.format->machine) {
    case CallMachine::kJson:
      return make_json_calls(context);
    case CallMachine::kNameJson:
      return make_named_calls(context);
    case CallMachine::kXml:
      return make_xml_calls(context);
    case CallMachine::kPython:
      return make_python_calls(context);
    case CallMachine::kGemma:
      return make_gemma_calls(context);
    case CallMachine::kHarmony:
      return make_channels(context);
  }
  return nullptr;
}

OutputStart output_start(const CallFormat* calls, const ReasoningFormat* reasoning, std::string_view prompt) {
  const std::string_view end = without_trailing_space(prompt);
  if (reasoning != nullptr) {
    const std::string_view skip = without_trailing_space(reasoning->skip);
    for (const auto& marker : reasoning->markers) {
      if (marker.text.empty()) continue;
      if (marker.role == R::kReasoningEnd && end.ends_with(marker.text)) return OutputStart::kText;
      if (marker.role != R::kReasoningBegin) continue;
      if (end.ends_with(marker.text)) return OutputStart::kReasoning;
      if (!skip.empty() && end.ends_with(skip) &&
          end.substr(0, end.size() - skip.size()).ends_with(marker.text))
        return OutputStart::kReasoning;
    }
  }
  if (calls != nullptr && calls->machine == CallMachine::kNameJson) {
    for (const auto& marker : calls->markers) {
      if (marker.role == R::kCall && !marker.text.empty() && prompt.ends_with(marker.text))
        return OutputStart::kCall;
    }
  }
  return OutputStart::kText;
}

OutputParser::OutputParser(OutputParserOptions options)
    : options_(std::move(options)), events_(std::make_unique<EventWriter>()) {
  if (!options_.tools) options_.tools = std::make_shared<const ToolSet>();
  if (options_.calls != nullptr) {
    add_markers(options_.calls->markers);
    const MachineContext context{options_.calls, options_.tools.get(), events_.get()};
    calls_ = make_call_reader(context);
    if (options_.calls->machine == CallMachine::kNameJson) list_ = make_json_calls(context);
  }
  if (options_.reasoning != nullptr) add_markers(options_.reasoning->markers);
  reader_ = calls_.get();

  OutputStart start = options_.start;
  if (start == OutputStart::kDefault && options_.reasoning != nullptr && options_.reasoning->starts_open)
    start = OutputStart::kReasoning;
  if (options_.calls != nullptr && options_.calls->machine == CallMachine::kHarmony) {
    mode_ = Mode::kCalls;
    calls_->start(R::kStart, "");
  } else if (start == OutputStart::kReasoning && options_.reasoning != nullptr) {
    begin_reasoning();
  } else if (start == OutputStart::kCall && options_.calls != nullptr) {
    mode_ = Mode::kCalls;
    // The marker is a part of the prompt.
    calls_->start(R::kCall, "");
  }
}

OutputParser::~OutputParser() = default;
OutputParser::OutputParser(OutputParser&&) noexcept = default;
OutputParser& OutputParser::operator=(OutputParser&&) noexcept = default;

void OutputParser::add_markers(std::span<const Marker> markers) {
  for (const auto& marker : markers) {
    if (marker.text.empty()) continue;
    const auto same = [&](const KnownMarker& known) {
      return known.marker.text == marker.text && known.marker.role == marker.role;
    };
    if (std::any_of(markers_.begin(), markers_.end(), same)) continue;
    KnownMarker known{marker, std::nullopt};
    if (options_.token_of) {
      known.token = options_.token_of(marker.text);
      if (!known.token) {
        for (const auto part : special_parts(marker.text)) {
          if (const auto id = options_.token_of(part)) marker_parts_.emplace_back(*id, std::string(part));
        }
      }
    }
    markers_.push_back(known);
  }
}

void OutputParser::push(std::string_view bytes, std::vector<OutputEvent>& events) {
  events_->write_to(events);
  write_first();
  for (const char c : bytes) {
    held_ += c;
    drain(false);
  }
}

bool OutputParser::is_marker(TokenId id) const {
  return std::any_of(markers_.begin(), markers_.end(), [&](const auto& m) { return m.token == id; }) ||
         std::any_of(marker_parts_.begin(), marker_parts_.end(),
                     [&](const auto& p) { return p.first == id; });
}

std::vector<TokenId> OutputParser::marker_tokens() const {
  std::vector<TokenId> ids;
  for (const auto& known : markers_) {
    if (known.token) ids.push_back(*known.token);
  }
  for (const auto& part : marker_parts_) ids.push_back(part.first);
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

void OutputParser::push_marker(TokenId id, std::vector<OutputEvent>& events) {
  events_->write_to(events);
  write_first();
  const KnownMarker* known = nullptr;
  for (const auto& marker : markers_) {
    if (marker.token != id) continue;
    if (known == nullptr || has_role(expected(), marker.marker.role)) known = &marker;
  }
  if (known == nullptr) {
    for (const auto& [part, text] : marker_parts_) {
      if (part != id) continue;
      push(text, events);
      return;
    }
    return;
  }
  drain(true);
  // The token of a marker ends a call even within a string.
  constexpr auto kAlways = roles({R::kClose, R::kCallEnd, R::kOpen, R::kCall});
  const R role = known->marker.role;
  if (has_role(expected(), role) || (mode_ == Mode::kCalls && has_role(kAlways, role))) {
    handle_marker(known->marker);
    return;
  }
  for (const char c : known->marker.text) handle_byte(c);
}

void OutputParser::finish(std::vector<OutputEvent>& events) {
  events_->write_to(events);
  write_first();
  drain(true);
  if (mode_ == Mode::kCalls) {
    reader_->finish();
    if (!reader_->raw().empty()) refuse_calls();
    events_->end_arguments();
  }
  if (mode_ == Mode::kReasoning) {
    if (skipped_ != kNoSkip) events_->reasoning(options_.reasoning->skip.substr(0, skipped_));
    if (newline_) events_->reasoning("\n");
  }
  write_text("");
}

bool OutputParser::in_reasoning() const {
  return mode_ == Mode::kReasoning || (mode_ == Mode::kCalls && reader_->in_reasoning());
}

bool OutputParser::may_reason() const {
  if (mode_ == Mode::kReasoning) return true;
  if (mode_ == Mode::kText) return reasoning_may_begin();
  // Refused calls lead back to the reasoning before them.
  return before_calls_ == Mode::kReasoning || options_.calls->machine == CallMachine::kHarmony ||
         (options_.reasoning != nullptr && options_.reasoning->reopens);
}

// Handles the held bytes, except those that may be the beginning of a marker.
void OutputParser::drain(bool at_end) {
  while (!held_.empty()) {
    const MarkerRoles wanted = expected();
    const Marker* complete = nullptr;
    bool partial = false;
    for (const auto& [marker, token] : markers_) {
      if (token || !has_role(wanted, marker.role) || marker.text[0] != held_[0]) continue;
      if (marker.text.size() > held_.size()) {
        partial |= marker.text.starts_with(held_);
      } else if (std::string_view(held_).starts_with(marker.text)) {
        if (complete == nullptr || marker.text.size() > complete->text.size()) complete = &marker;
      }
    }
    if (partial && !at_end) return;
    if (complete != nullptr) {
      held_.erase(0, complete->text.size());
      handle_marker(*complete);
    } else {
      const char c = held_[0];
      held_.erase(0, 1);
      handle_byte(c);
    }
  }
}

bool OutputParser::reasoning_may_begin() const {
  if (options_.reasoning == nullptr) return false;
  if (options_.reasoning->reopens) return true;
  return fresh_ && !any_text_ && !reasoning_ended_ && events_->num_calls() == 0;
}

// The markers that count now.
MarkerRoles OutputParser::expected() const {
  constexpr auto kCallBegin = roles({R::kOpen, R::kCall});
  switch (mode_) {
    case Mode::kCalls:
      return reader_->expected();
    case Mode::kReasoning:
      return roles({R::kReasoningEnd}) | (options_.reasoning->calls_end_it ? kCallBegin : 0) |
             (any_reasoning_ ? 0 : roles({R::kReasoningBegin}));
    case Mode::kText:
      break;
  }
  MarkerRoles wanted = kCallBegin | roles({R::kDrop});
  if (after_call_) wanted |= roles({R::kClose});
  if (reasoning_may_begin()) wanted |= roles({R::kReasoningBegin});
  // A second end of reasoning, as models repeat it.
  if (options_.reasoning != nullptr && options_.reasoning->calls_end_it) wanted |= roles({R::kReasoningEnd});
  return wanted;
}

void OutputParser::handle_byte(char c) {
  for (;;) {
    if (mode_ == Mode::kText) return text_byte(c);
    if (mode_ == Mode::kReasoning) return reasoning_byte(c);
    if (!apply(reader_->byte(c), c)) return;
  }
}

void OutputParser::handle_marker(const Marker& marker) {
  if (mode_ == Mode::kCalls) {
    if (!apply(reader_->marker(marker.role, marker.text), '\0')) return;
    // The marker does not belong to the calls before it.
    if (!has_role(expected(), marker.role)) {
      for (const char c : marker.text) handle_byte(c);
      return;
    }
  }
  switch (marker.role) {
    case R::kOpen:
    case R::kCall:
      begin_calls(marker);
      return;
    case R::kReasoningBegin:
      if (mode_ == Mode::kText) begin_reasoning();
      return;
    case R::kReasoningEnd:
      if (mode_ == Mode::kReasoning) end_reasoning();
      return;
    default:
      return;  // dropped
  }
}

bool OutputParser::apply(MachineStep step, char last) {
  switch (step) {
    case MachineStep::kContinue:
      return false;
    case MachineStep::kDone:
      leave_calls();
      return false;
    case MachineStep::kDoneBefore:
      leave_calls();
      return true;
    case MachineStep::kRefused:
      refuse_calls();
      return true;
    case MachineStep::kList: {
      std::string raw = calls_->raw();
      raw.pop_back();
      reader_ = list_.get();
      reader_->start(R::kOpen, raw);
      return apply(reader_->byte(last), last);
    }
  }
  return false;
}

void OutputParser::begin_calls(const Marker& marker) {
  before_calls_ = mode_;
  mode_ = Mode::kCalls;
  reader_ = calls_.get();
  reader_->start(marker.role, marker.text);
}

bool OutputParser::begin_bare_calls(char c) {
  if (options_.calls == nullptr || !options_.calls->bare) return false;
  if (c != '[' && (c != '{' || options_.calls->machine != CallMachine::kJson)) return false;
  // Within text, only the name of a tool tells a call from other text.
  if (options_.tools->empty() && (any_text_ || !fresh_)) return false;
  before_calls_ = mode_;
  mode_ = Mode::kCalls;
  reader_ = calls_.get();
  reader_->start_bare();
  reader_->byte(c);
  return true;
}

void OutputParser::leave_calls() {
  mode_ = Mode::kText;
  if (events_->in_call()) events_->end_call();
  // Without a call (functionary's "all"), text follows.
  after_call_ = events_->num_calls() > 0;
  space_.clear();
  newline_ = false;
  fresh_ = true;
}

void OutputParser::refuse_calls() {
  const std::string raw = reader_->raw();
  mode_ = before_calls_;
  if (mode_ == Mode::kReasoning) {
    write_reasoning(raw);
  } else {
    after_call_ = false;
    write_text(raw);
  }
}

void OutputParser::text_byte(char c) {
  if (skip_newline_) {
    skip_newline_ = false;
    if (c == '\n') return;
  }
  if (is_json_space(c)) {
    if (after_call_) return;
    if (fresh_ && space_.size() < kMaxSpace) {
      space_ += c;
      return;
    }
  } else if (begin_bare_calls(c)) {
    return;
  }
  after_call_ = false;
  write_text(std::string_view(&c, 1));
}

void OutputParser::write_first() {
  if (first_written_) return;
  first_written_ = true;
  if (options_.reasoning != nullptr) events_->text(options_.reasoning->before_text);
}

void OutputParser::write_text(std::string_view bytes) {
  events_->text(space_);
  events_->text(bytes);
  any_text_ |= !space_.empty() || !bytes.empty();
  space_.clear();
  fresh_ = fresh_ && bytes.empty();
}

void OutputParser::begin_reasoning() {
  mode_ = Mode::kReasoning;
  space_.clear();
  any_reasoning_ = newline_ = false;
  skipped_ = options_.reasoning->skip.empty() ? kNoSkip : 0;
}

void OutputParser::end_reasoning() {
  mode_ = Mode::kText;
  reasoning_ended_ = true;
  newline_ = false;
  after_call_ = false;
  skip_newline_ = options_.reasoning->trim_newlines;
  fresh_ = true;
}

void OutputParser::reasoning_byte(char c) {
  if (skipped_ != kNoSkip) {
    const std::string_view skip = options_.reasoning->skip;
    if (c == skip[skipped_]) {
      if (++skipped_ == skip.size()) skipped_ = kNoSkip;
      return;
    }
    const size_t seen = skipped_;
    skipped_ = kNoSkip;
    write_reasoning(skip.substr(0, seen));
  }
  if (c == '\n' && options_.reasoning->trim_newlines) {
    if (newline_) events_->reasoning("\n");
    newline_ = true;
    return;
  }
  write_reasoning(std::string_view(&c, 1));
}

void OutputParser::write_reasoning(std::string_view bytes) {
  if (bytes.empty()) return;
  if (newline_) events_->reasoning("\n");
  newline_ = false;
  any_reasoning_ |= std::any_of(bytes.begin(), bytes.end(), [](char c) { return !is_json_space(c); });
  events_->reasoning(bytes);
}

std::string call_id(const CallFormat* format, int index, std::string_view name, std::string_view id,
                    uint64_t salt) {
  if (!id.empty()) return std::string(id);
  const CallIdForm form = format == nullptr ? CallIdForm::kRandom : format->id_form;
  if (form == CallIdForm::kKimi) return "functions." + std::string(name) + ":" + std::to_string(index);
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  const size_t size = form == CallIdForm::kMistral ? 9 : 24;
  const size_t base = form == CallIdForm::kMistral ? kDigits.size() : 16;
  std::string text = form == CallIdForm::kMistral ? "" : "call_";
  uint64_t state = salt + static_cast<uint64_t>(index) * 0xd1342543de82ef95;
  for (size_t i = 0; i < size; ++i) {
    // splitmix64
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    text += kDigits[(z ^ (z >> 31)) % base];
  }
  return text;
}

}  // namespace quire
