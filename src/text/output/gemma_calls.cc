// Calls in Gemma's notation: call:name{key:value}, with strings between markers of their own.
#include "text/output/call_machine.h"

namespace quire {
namespace {

class GemmaCalls final : public CallReader {
 public:
  explicit GemmaCalls(const MachineContext& context) : context_(context) {}

  void start(MarkerRole, std::string_view marker) override {
    raw_ = marker;
    name_.clear();
    state_ = State::kName;
  }

  MarkerRoles expected() const override {
    switch (state_) {
      case State::kName:
        return roles({MarkerRole::kCall, MarkerRole::kCallEnd});
      case State::kArguments:
        return literal_.in_string() ? roles({MarkerRole::kQuote})
                                    : roles({MarkerRole::kQuote, MarkerRole::kCallEnd});
      case State::kTail:
        return roles({MarkerRole::kCallEnd, MarkerRole::kCall});
    }
    return 0;
  }

  MachineStep byte(char c) override {
    switch (state_) {
      case State::kName:
        raw_ += c;
        if (c == '{' && !name_.empty()) {
          raw_.clear();
          context_.events->begin_call(name_, "");
          literal_.start(LiteralConverter::Dialect::kGemma);
          state_ = State::kArguments;
          return argument(c);
        }
        if (!is_name_byte(c) || name_.size() >= kMaxToolName) {
          raw_.pop_back();
          return MachineStep::kRefused;
        }
        name_ += c;
        return MachineStep::kContinue;
      case State::kArguments:
        return argument(c);
      case State::kTail:
        return is_json_space(c) ? MachineStep::kContinue : MachineStep::kDoneBefore;
    }
    return MachineStep::kContinue;
  }

  MachineStep marker(MarkerRole role, std::string_view) override {
    if (state_ == State::kName) return MachineStep::kRefused;
    if (role == MarkerRole::kQuote) {
      out_.clear();
      literal_.quote(out_);
      context_.events->arguments(out_);
      return MachineStep::kContinue;
    }
    if (state_ == State::kArguments) {
      out_.clear();
      literal_.close_all(out_);
      context_.events->arguments(out_);
    }
    context_.events->end_call();
    return role == MarkerRole::kCallEnd ? MachineStep::kDone : MachineStep::kDoneBefore;
  }

  void finish() override {
    if (state_ != State::kArguments) return;
    out_.clear();
    literal_.finish(out_);
    context_.events->arguments(out_);
  }

 private:
  enum class State : uint8_t { kName, kArguments, kTail };

  MachineStep argument(char c) {
    out_.clear();
    literal_.push(c, out_);
    context_.events->arguments(out_);
    if (literal_.done()) {
      state_ = State::kTail;
      context_.events->end_call();
    }
    return MachineStep::kContinue;
  }

  MachineContext context_;
  State state_ = State::kName;
  LiteralConverter literal_;
  std::string name_, out_;
};

}  // namespace

std::unique_ptr<CallReader> make_gemma_calls(const MachineContext& context) {
  return std::make_unique<GemmaCalls>(context);
}

}  // namespace quire
