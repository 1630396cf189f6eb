// Calls as a name and parameters between tags. The values become JSON while they are read.
#include "text/json_escape.h"
#include "text/output/call_machine.h"

namespace quire {
namespace {

// Numbers and constants are held back, because they are strings if anything else follows.
constexpr size_t kMaxScalar = 48;

class XmlCalls final : public CallReader {
 public:
  explicit XmlCalls(const MachineContext& context) : context_(context) {
    for (const auto& marker : context.format->markers) {
      if (!marker.text.empty()) formats_ |= roles({marker.role});
    }
  }

  void start(MarkerRole role, std::string_view marker) override {
    raw_ = marker;
    any_ = false;
    section_ = role == MarkerRole::kOpen;
    state_ = State::kSection;
    if (!section_) begin_head();
  }

  MarkerRoles expected() const override {
    constexpr auto kBetween = roles({MarkerRole::kCall, MarkerRole::kOpen, MarkerRole::kClose});
    switch (state_) {
      case State::kSection:
        return kBetween;
      case State::kName:
        // GLM's name may be followed by a parameter, or by nothing.
        return has_role(formats_, MarkerRole::kOpen)
                   ? roles({MarkerRole::kNameEnd})
                   : roles({MarkerRole::kNameEnd, MarkerRole::kParameter, MarkerRole::kCallEnd});
      case State::kBody:
        return kBetween | roles({MarkerRole::kParameter, MarkerRole::kCallEnd});
      case State::kParameter:
        return roles({MarkerRole::kParameterEnd, MarkerRole::kStringEnd, MarkerRole::kJsonEnd});
      case State::kBeforeValue:
        return roles({MarkerRole::kValue});
      case State::kValue:
        return roles({MarkerRole::kValueEnd});
    }
    return 0;
  }

  MachineStep byte(char c) override {
    switch (state_) {
      case State::kSection:
        return section_byte(c, any_);
      case State::kName:
        return name_byte(c);
      case State::kParameter:
        if (parameter_.size() < kMaxToolName) parameter_ += c;
        return MachineStep::kContinue;
      case State::kValue:
        value_byte(c);
        return MachineStep::kContinue;
      case State::kBody:
      case State::kBeforeValue:
        return MachineStep::kContinue;
    }
    return MachineStep::kContinue;
  }

  MachineStep marker(MarkerRole role, std::string_view text) override {
    switch (role) {
      case MarkerRole::kCall:
        if (state_ == State::kSection && !any_) raw_ += text;
        if (state_ != State::kSection) end_call();
        begin_head();
        return MachineStep::kContinue;
      case MarkerRole::kNameEnd:
        if (name_.empty() && is_json_space(text.back())) {
          raw_ += text;
          return MachineStep::kContinue;
        }
        return begin_call() ? MachineStep::kContinue : MachineStep::kRefused;
      case MarkerRole::kParameter:
        if (state_ == State::kName && !begin_call()) return MachineStep::kRefused;
        parameter_.clear();
        state_ = State::kParameter;
        return MachineStep::kContinue;
      case MarkerRole::kParameterEnd:
      case MarkerRole::kStringEnd:
      case MarkerRole::kJsonEnd:
        begin_value(role);
        return MachineStep::kContinue;
      case MarkerRole::kValue:
        state_ = State::kValue;
        return MachineStep::kContinue;
      case MarkerRole::kValueEnd:
        end_value();
        return MachineStep::kContinue;
      case MarkerRole::kCallEnd:
        if (state_ == State::kName && !begin_call()) return MachineStep::kRefused;
        end_call();
        state_ = State::kSection;
        return section_ ? MachineStep::kContinue : MachineStep::kDone;
      default:
        break;
    }
    // The section ends, or another one begins.
    if (state_ == State::kName || (state_ == State::kSection && !any_)) return MachineStep::kRefused;
    end_call();
    section_ = role == MarkerRole::kOpen;
    state_ = State::kSection;
    return section_ ? MachineStep::kContinue : MachineStep::kDone;
  }

  void finish() override {
    if (state_ != State::kValue) return;
    out_.clear();
    flush_newline();
    if (kind_ == ToolSet::Kind::kContainer) literal_.finish(out_);
    const std::string json = scalar_json(scalar_);
    if (json.empty() && !scalar_.empty()) become_string();
    context_.events->arguments(out_ + json);
  }

 private:
  enum class State : uint8_t { kSection, kName, kBody, kParameter, kBeforeValue, kValue };

  void begin_head() {
    name_.clear();
    spaced_ = false;
    state_ = State::kName;
  }

  MachineStep name_byte(char c) {
    raw_ += c;
    if (raw_.size() > kMaxCallHead) return refuse_last();
    if (is_json_space(c)) {
      spaced_ = !name_.empty();
      return MachineStep::kContinue;
    }
    if (!is_name_byte(c) || spaced_ || name_.size() >= kMaxToolName) return refuse_last();
    name_ += c;
    return MachineStep::kContinue;
  }

  bool begin_call() {
    if (name_.empty()) return false;
    raw_.clear();
    any_ = true;
    first_ = true;
    context_.events->begin_call(name_, "");
    state_ = State::kBody;
    return true;
  }

  void end_call() {
    if (!context_.events->in_call()) return;
    if (state_ == State::kValue) end_value();
    context_.events->arguments(first_ ? "{}" : "}");
    context_.events->end_call();
  }

  void begin_value(MarkerRole role) {
    out_ = first_ ? "{\"" : ", \"";
    first_ = false;
    append_escaped(out_, without_spaces(parameter_));
    out_ += "\": ";
    kind_ = context_.tools->kind(name_, without_spaces(parameter_));
    if (role == MarkerRole::kStringEnd) kind_ = ToolSet::Kind::kString;
    if (role == MarkerRole::kJsonEnd && kind_ == ToolSet::Kind::kString) kind_ = ToolSet::Kind::kContainer;
    if (kind_ == ToolSet::Kind::kString) out_ += '"';
    literal_.start(LiteralConverter::Dialect::kJson);
    scalar_.clear();
    at_start_ = context_.format->trim_newlines;
    newline_ = false;
    state_ = has_role(formats_, MarkerRole::kValue) ? State::kBeforeValue : State::kValue;
    context_.events->arguments(out_);
  }

  void value_byte(char c) {
    out_.clear();
    if (at_start_) {
      at_start_ = false;
      if (c == '\n') return;
    }
    flush_newline();
    if (c == '\n' && context_.format->trim_newlines) {
      newline_ = true;
    } else {
      convert(c);
    }
    context_.events->arguments(out_);
  }

  void flush_newline() {
    if (newline_) convert('\n');
    newline_ = false;
  }

  void convert(char c) {
    switch (kind_) {
      case ToolSet::Kind::kString:
        append_json_escaped(out_, c);
        return;
      case ToolSet::Kind::kNullable:
        scalar_ += c;
        if (!std::string_view("null").starts_with(scalar_)) become_string();
        return;
      case ToolSet::Kind::kContainer:
        if (literal_.started() || std::string_view(" \t\r\n[{(\"'").find(c) != std::string_view::npos) {
          literal_.push(c, out_);
          return;
        }
        kind_ = ToolSet::Kind::kScalar;
        break;
      case ToolSet::Kind::kScalar:
        break;
    }
    scalar_ += c;
    if (scalar_.size() > kMaxScalar) become_string();
  }

  // The value is not a constant: what was held back begins a string.
  void become_string() {
    out_ += '"';
    append_escaped(out_, scalar_);
    scalar_.clear();
    kind_ = ToolSet::Kind::kString;
  }

  void end_value() {
    newline_ = false;
    out_.clear();
    if (kind_ == ToolSet::Kind::kString) {
      out_ += '"';
    } else if (kind_ == ToolSet::Kind::kContainer) {
      literal_.close_all(out_);
      if (!literal_.started()) out_ += "null";
    } else if (const std::string json = scalar_json(scalar_); !json.empty()) {
      out_ += json;
    } else {
      become_string();
      out_ += '"';
    }
    context_.events->arguments(out_);
    state_ = State::kBody;
  }

  MachineContext context_;
  State state_ = State::kSection;
  MarkerRoles formats_ = 0;  // roles of the format's markers
  bool section_ = false, any_ = false, first_ = true, spaced_ = false;
  bool at_start_ = false;  // a line break is not part of the value
  bool newline_ = false;   // a line break that is part of it if more follows
  ToolSet::Kind kind_ = ToolSet::Kind::kString;
  LiteralConverter literal_;
  std::string name_, parameter_, scalar_, out_;
};

}  // namespace

std::unique_ptr<CallReader> make_xml_calls(const MachineContext& context) {
  return std::make_unique<XmlCalls>(context);
}

}  // namespace quire
