// Calls in Python's notation: [name(key=value), ...], or one call per line.
#include "text/output/call_machine.h"

namespace quire {
namespace {

class PythonCalls final : public CallReader {
 public:
  explicit PythonCalls(const MachineContext& context) : context_(context) {}

  void start(MarkerRole, std::string_view marker) override {
    reset();
    raw_ = marker;
  }

  void start_bare() override {
    reset();
    bare_ = true;
  }

  MarkerRoles expected() const override {
    if (state_ == State::kValue && literal_.in_string()) return 0;
    return roles({MarkerRole::kClose});
  }

  MachineStep byte(char c) override {
    if (keeps_raw()) raw_ += c;
    switch (state_) {
      case State::kList:
        if (is_json_space(c)) return raw_.size() > kMaxToolName ? refuse_last() : MachineStep::kContinue;
        if (c == '[' && !list_) {
          list_ = true;
          return MachineStep::kContinue;
        }
        if (bare_ && !list_) return refuse_last();
        name_.clear();
        state_ = State::kName;
        return name(c);
      case State::kName:
        return name(c);
      case State::kKey:
        return key(c);
      case State::kBeforeValue:
      case State::kValue:
        return value(c);
      case State::kBetween:
        return between(c);
    }
    return MachineStep::kContinue;
  }

  MachineStep marker(MarkerRole, std::string_view) override {
    if (!any_) return MachineStep::kRefused;
    if (context_.events->in_call()) end_call();
    return MachineStep::kDone;
  }

  void finish() override {
    if (state_ != State::kValue || !literal_.in_word()) return;
    out_.clear();
    literal_.finish(out_);
    context_.events->arguments(out_);
  }

 private:
  enum class State : uint8_t { kList, kName, kKey, kBeforeValue, kValue, kBetween };

  void reset() {
    raw_.clear();
    name_.clear();
    bare_ = any_ = list_ = false;
    state_ = State::kList;
  }

  bool keeps_raw() const { return !any_ || state_ == State::kName; }

  MachineStep name(char c) {
    if (c == '(' && !name_.empty()) {
      if (bare_ && !context_.tools->empty() && !context_.tools->contains(name_)) return refuse_last();
      raw_.clear();
      any_ = true;
      first_ = true;
      context_.events->begin_call(name_, "");
      key_.clear();
      state_ = State::kKey;
      return MachineStep::kContinue;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool ok = letter || (!name_.empty() && is_name_byte(c) && c != ':' && c != '/');
    if (!ok || name_.size() >= kMaxToolName) return refuse_last();
    name_ += c;
    if (bare_ && !context_.tools->empty() && !context_.tools->has_prefix(name_)) return refuse_last();
    return MachineStep::kContinue;
  }

  MachineStep key(char c) {
    if (is_json_space(c) || c == ',') return MachineStep::kContinue;
    if (c == ')') {
      end_call();
      return MachineStep::kContinue;
    }
    if (c == '=') {
      out_ = first_ ? "{\"" : ", \"";
      first_ = false;
      append_escaped(out_, key_);
      out_ += "\": ";
      context_.events->arguments(out_);
      key_.clear();
      literal_.start(LiteralConverter::Dialect::kPython);
      state_ = State::kBeforeValue;
      return MachineStep::kContinue;
    }
    if (key_.size() < kMaxToolName) key_ += c;
    return MachineStep::kContinue;
  }

  MachineStep value(char c) {
    state_ = State::kValue;
    out_.clear();
    const bool part = literal_.push(c, out_);
    context_.events->arguments(out_);
    if (part) return MachineStep::kContinue;
    if (!literal_.started()) context_.events->arguments("null");
    state_ = State::kKey;
    return key(c);
  }

  void end_call() {
    if (state_ == State::kBeforeValue || state_ == State::kValue) {
      out_.clear();
      literal_.finish(out_);
      if (!literal_.started()) out_ = "null";
      context_.events->arguments(out_);
    }
    context_.events->arguments(first_ ? "{}" : "}");
    context_.events->end_call();
    state_ = State::kBetween;
  }

  MachineStep between(char c) {
    if (is_json_space(c) || c == ',' || c == ';') return MachineStep::kContinue;
    if (c == ']' && list_) {
      list_ = false;
      return bare_ ? MachineStep::kDone : MachineStep::kContinue;
    }
    if (bare_ && !list_) return MachineStep::kDoneBefore;
    name_.clear();
    raw_ = c;
    state_ = State::kName;
    return name(c);
  }

  MachineContext context_;
  State state_ = State::kList;
  bool bare_ = false, any_ = false, list_ = false, first_ = true;
  LiteralConverter literal_;
  std::string name_, key_, out_;
};

}  // namespace

std::unique_ptr<CallReader> make_python_calls(const MachineContext& context) {
  return std::make_unique<PythonCalls>(context);
}

}  // namespace quire
