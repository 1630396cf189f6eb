// Calls as a name between markers, followed by the arguments as JSON.
#include <algorithm>

#include "text/output/call_machine.h"

namespace quire {
namespace {

class NamedCalls final : public CallReader {
 public:
  explicit NamedCalls(const MachineContext& context) : context_(context) {
    for (const auto& marker : context.format->markers) {
      if (marker.text.empty()) continue;
      formats_ |= roles({marker.role});
      line_names_ |= marker.role == MarkerRole::kNameEnd && marker.text == "\n";
    }
  }

  void start(MarkerRole role, std::string_view marker) override {
    raw_ = marker;
    any_ = false;
    section_ = role == MarkerRole::kOpen;
    if (section_) {
      state_ = State::kSection;
    } else {
      begin_head();
    }
  }

  MarkerRoles expected() const override {
    constexpr auto kBetween = roles({MarkerRole::kCall, MarkerRole::kOpen, MarkerRole::kClose});
    switch (state_) {
      case State::kSection:
        return kBetween;
      case State::kSkip:
        return kBetween | roles({MarkerRole::kSkipEnd});
      case State::kName:
        return kBetween | roles({MarkerRole::kNameEnd, MarkerRole::kIdBegin});
      case State::kId:
        return roles({MarkerRole::kNameEnd});
      case State::kArguments:
        if (copier_.in_string()) return 0;
        return kBetween | roles({MarkerRole::kCallEnd});
      case State::kTail:
        return kBetween | roles({MarkerRole::kCallEnd});
    }
    return 0;
  }

  MachineStep byte(char c) override {
    switch (state_) {
      case State::kSection:
        return section_byte(c, any_);
      case State::kSkip:
        raw_ += c;
        if (!is_name_byte(c) || raw_.size() > kMaxToolName) return refuse_last();
        return MachineStep::kContinue;
      case State::kName:
        return name_byte(c);
      case State::kId:
        raw_ += c;
        if (!is_name_byte(c) || id_.size() >= kMaxToolName) return refuse_last();
        id_ += c;
        return MachineStep::kContinue;
      case State::kArguments:
        return argument(c);
      case State::kTail:
        // A code block around the arguments may be closed.
        if (is_json_space(c) || (c == '`' && has_role(formats_, MarkerRole::kSkipEnd)))
          return MachineStep::kContinue;
        end_call();
        return section_ ? MachineStep::kContinue : MachineStep::kDoneBefore;
    }
    return MachineStep::kContinue;
  }

  MachineStep marker(MarkerRole role, std::string_view text) override {
    switch (role) {
      case MarkerRole::kSkipEnd:
        raw_ += text;
        state_ = State::kName;
        return MachineStep::kContinue;
      case MarkerRole::kIdBegin:
        raw_ += text;
        state_ = State::kId;
        return MachineStep::kContinue;
      case MarkerRole::kNameEnd:
        if (name_.empty()) return MachineStep::kRefused;
        if (line_names_ && name_ == "all") return MachineStep::kDone;
        begin_call();
        return MachineStep::kContinue;
      case MarkerRole::kCall:
        if (state_ == State::kSection) {
          if (!any_) raw_ += text;
          begin_head();
          return MachineStep::kContinue;
        }
        if (in_head()) return MachineStep::kRefused;
        end_call();
        raw_ = text;
        begin_head();
        return MachineStep::kContinue;
      case MarkerRole::kCallEnd:
        end_call();
        state_ = State::kSection;
        return section_ ? MachineStep::kContinue : MachineStep::kDone;
      default:
        break;
    }
    // The section ends, or another one begins.
    if (in_head() || (state_ == State::kSection && !any_)) return MachineStep::kRefused;
    end_call();
    if (role == MarkerRole::kOpen) {
      section_ = true;
      state_ = State::kSection;
      return MachineStep::kContinue;
    }
    return MachineStep::kDone;
  }

  void finish() override {}

 private:
  enum class State : uint8_t { kSection, kSkip, kName, kId, kArguments, kTail };

  bool in_head() const { return state_ == State::kSkip || state_ == State::kName || state_ == State::kId; }

  void begin_head() {
    name_.clear();
    id_.clear();
    state_ = has_role(formats_, MarkerRole::kSkipEnd) ? State::kSkip : State::kName;
  }

  MachineStep name_byte(char c) {
    raw_ += c;
    if (has_role(formats_, MarkerRole::kIdBegin)) {  // Mistral
      if (name_.empty() && (c == '[' || c == '{')) return MachineStep::kList;
      if (c == '{' && !name_.empty()) {
        begin_call();
        return argument(c);
      }
    }
    if (raw_.size() > kMaxCallHead) return refuse_last();
    if (is_json_space(c) && !line_names_) {
      // Around the name; within it, the text is not a name.
      spaced_ = !name_.empty();
      return MachineStep::kContinue;
    }
    if (!is_name_byte(c) || name_.size() >= kMaxToolName || (spaced_ && !name_.empty())) return refuse_last();
    name_ += c;
    return MachineStep::kContinue;
  }

  void begin_call() {
    raw_.clear();
    any_ = true;
    spaced_ = false;
    if (context_.format->id_form == CallIdForm::kKimi) {
      // functions.NAME:INDEX is the id.
      if (name_.find(':') != std::string::npos) id_ = name_;
      name_.resize(std::min(name_.size(), name_.find(':')));
      if (const size_t dot = name_.rfind('.'); dot != std::string::npos) name_.erase(0, dot + 1);
    }
    context_.events->begin_call(name_, id_);
    copier_.start();
    state_ = State::kArguments;
  }

  MachineStep argument(char c) {
    if (!copier_.started() && is_json_space(c)) return MachineStep::kContinue;
    if (copier_.push(c)) {
      context_.events->arguments(std::string_view(&c, 1));
      if (copier_.done()) {
        state_ = State::kTail;
        end_call();
      }
      return MachineStep::kContinue;
    }
    state_ = State::kTail;
    return byte(c);
  }

  void end_call() { context_.events->end_call(); }

  MachineContext context_;
  State state_ = State::kSection;
  MarkerRoles formats_ = 0;  // roles of the format's markers
  bool line_names_ = false;  // a name ends with its line
  bool section_ = false, any_ = false, spaced_ = false;
  JsonCopier copier_;
  std::string name_, id_;
};

}  // namespace

std::unique_ptr<CallReader> make_named_calls(const MachineContext& context) {
  return std::make_unique<NamedCalls>(context);
}

}  // namespace quire
