// Calls as JSON: {"name": ..., "arguments": {...}}, or a list of such objects.
#include <algorithm>

#include "base/hex.h"
#include "text/output/call_machine.h"
#include "text/unicode/unicode.h"

namespace quire {
namespace {

// Bytes of one call that are kept until its name is known: after them, it is not taken for a call.
constexpr size_t kMaxHead = size_t{64} << 10;
constexpr size_t kMaxKey = kMaxToolName;

class JsonCalls final : public CallReader {
 public:
  explicit JsonCalls(const MachineContext& context) : context_(context) {}

  void start(MarkerRole, std::string_view marker) override {
    reset();
    raw_ = marker;
  }

  void start_bare() override {
    reset();
    bare_ = true;
  }

  MarkerRoles expected() const override {
    if (state_ == State::kStart || state_ == State::kAfter)
      return roles({MarkerRole::kOpen, MarkerRole::kClose});
    if (in_string_state()) return 0;
    return roles({MarkerRole::kClose});
  }

  MachineStep byte(char c) override {
    if (keeps_raw()) {
      raw_ += c;
      if (raw_.size() > (bare_ ? kMaxCallHead : kMaxHead)) return refuse_last();
    }
    return step(c);
  }

  MachineStep marker(MarkerRole role, std::string_view text) override {
    if (state_ == State::kStart) {
      // A marker without a call, and the next one.
      return MachineStep::kRefused;
    }
    if (role == MarkerRole::kOpen && state_ == State::kAfter) {
      reset_object();
      state_ = State::kStart;
      raw_ = text;
      return MachineStep::kContinue;
    }
    if (keeps_raw() && !any_) return MachineStep::kRefused;
    end_object();
    return MachineStep::kDone;
  }

  void finish() override {}

 private:
  enum class State : uint8_t {
    kStart,
    kItem,
    kKey,
    kInKey,
    kColon,
    kValue,
    kName,
    kId,
    kArguments,
    kText,
    kSkip,
    kAfter
  };

  void reset() {
    raw_.clear();
    bare_ = any_ = list_ = false;
    state_ = State::kStart;
    reset_object();
  }

  void reset_object() {
    begun_ = escape_ = false;
    level_ = 1;
    hex_left_ = 0;
    name_.clear();
    id_.clear();
    pending_.clear();
    has_arguments_ = false;
  }

  bool keeps_raw() const { return !begun_ && state_ != State::kAfter && !(state_ == State::kItem && any_); }
  bool in_string_state() const {
    return state_ == State::kInKey || state_ == State::kName || state_ == State::kId ||
           state_ == State::kText ||
           ((state_ == State::kArguments || state_ == State::kSkip) && copier_.in_string());
  }

  MachineStep step(char c) {
    switch (state_) {
      case State::kStart:
        if (is_json_space(c)) return MachineStep::kContinue;
        if (c == '[' && !list_) {
          list_ = true;
          state_ = State::kItem;
          return MachineStep::kContinue;
        }
        if (c != '{') return refuse_last();
        state_ = State::kKey;
        return MachineStep::kContinue;
      case State::kItem:
        return item(c);
      case State::kKey:
        return key(c);
      case State::kInKey:
        if (c != '"') {
          if (key_.size() < kMaxKey) key_ += c;
          return MachineStep::kContinue;
        }
        state_ = State::kColon;
        return MachineStep::kContinue;
      case State::kColon:
        if (c == ':') state_ = State::kValue;
        return c == ':' || is_json_space(c) || begun_ ? MachineStep::kContinue : refuse_last();
      case State::kValue:
        return value(c);
      case State::kName:
      case State::kId:
      case State::kText:
        return string_byte(c);
      case State::kArguments:
      case State::kSkip:
        return copy(c);
      case State::kAfter:
        return after(c);
    }
    return MachineStep::kContinue;
  }

  MachineStep item(char c) {
    if (is_json_space(c) || c == ',') return MachineStep::kContinue;
    if (c == '{') {
      reset_object();
      state_ = State::kKey;
      if (any_) raw_ = c;
      return MachineStep::kContinue;
    }
    if (c == ']' && any_) {
      state_ = State::kAfter;
      return finished_without_close() ? MachineStep::kDone : MachineStep::kContinue;
    }
    return any_ ? MachineStep::kDoneBefore : refuse_last();
  }

  // Without a marker that ends the section, a list is all there is.
  bool finished_without_close() const {
    return bare_ ||
           std::none_of(context_.format->markers.begin(), context_.format->markers.end(),
                        [](const Marker& m) { return m.role == MarkerRole::kClose && !m.text.empty(); });
  }

  MachineStep key(char c) {
    if (is_json_space(c) || c == ',') return MachineStep::kContinue;
    if (c == '"') {
      key_.clear();
      state_ = State::kInKey;
      return MachineStep::kContinue;
    }
    if (c == '}') {
      if (--level_ > 0) return MachineStep::kContinue;
      return end_of_object();
    }
    return begun_ ? MachineStep::kContinue : refuse_last();
  }

  MachineStep value(char c) {
    if (is_json_space(c)) return MachineStep::kContinue;
    if (context_.format->keyed && level_ == 1 && !has_arguments_) {
      if (key_.empty()) return refuse_last();
      name_ = key_;
      return begin_arguments(c);
    }
    const bool is_name = key_ == "name" || key_ == "tool_name" || key_ == "function";
    const bool is_id = key_ == "id" || key_ == "tool_call_id";
    const bool is_arguments = key_ == "arguments" || key_ == "parameters";
    if (c == '{' && key_ == "function" && level_ == 1) {
      ++level_;
      state_ = State::kKey;
      return MachineStep::kContinue;
    }
    if (c == '"' && is_name && name_.empty()) {
      state_ = State::kName;
    } else if (c == '"' && is_id && !begun_) {
      state_ = State::kId;
      id_.clear();
    } else if (is_arguments && !has_arguments_) {
      return begin_arguments(c);
    } else {
      if (bare_ && !begun_ && key_ != "type" && key_ != "id") return refuse_last();
      state_ = State::kSkip;
      copier_.start();
      return copy(c);
    }
    return MachineStep::kContinue;
  }

  MachineStep begin_arguments(char c) {
    if (!begun_ && bare_ && name_.empty()) return refuse_last();
    has_arguments_ = true;
    if (!begun_ && !name_.empty()) begin();
    if (c == '"') {
      state_ = State::kText;
      return MachineStep::kContinue;
    }
    state_ = State::kArguments;
    copier_.start();
    return copy(c);
  }

  // A byte of a string whose text counts: a name, an id, or arguments as a string.
  MachineStep string_byte(char c) {
    if (hex_left_ > 0) {
      code_ = code_ * 16 + static_cast<uint32_t>(std::max(0, hex_value(c)));
      if (--hex_left_ == 0) take_code();
      return MachineStep::kContinue;
    }
    if (escape_) {
      escape_ = false;
      if (c == 'u') {
        hex_left_ = 4;
        code_ = 0;
      } else {
        take(unescaped(c));
      }
      return MachineStep::kContinue;
    }
    if (c == '\\') {
      escape_ = true;
      return MachineStep::kContinue;
    }
    if (c != '"') {
      take(c);
      if (state_ == State::kName && bare_ && !context_.tools->empty() && !context_.tools->has_prefix(name_))
        return refuse_last();
      return MachineStep::kContinue;
    }
    const State ended = state_;
    state_ = State::kKey;
    if (ended != State::kName) return MachineStep::kContinue;
    if (name_.empty() || name_.size() > kMaxToolName) return refuse_last();
    if (!bare_) {
      begin();
    } else if (!context_.tools->empty()) {
      if (!context_.tools->contains(name_)) return refuse_last();
      begin();
    }
    return MachineStep::kContinue;
  }

  static char unescaped(char c) {
    switch (c) {
      case 'n':
        return '\n';
      case 't':
        return '\t';
      case 'r':
        return '\r';
      case 'b':
        return '\b';
      case 'f':
        return '\f';
      default:
        return c;
    }
  }

  // A \u escape as UTF-8. The halves of a surrogate pair come one after the other.
  void take_code() {
    if (code_ >= 0xd800 && code_ < 0xdc00) {
      high_ = code_;
      return;
    }
    if (code_ >= 0xdc00 && code_ < 0xe000)
      code_ = high_ != 0 ? 0x10000 + ((high_ - 0xd800) << 10) + (code_ - 0xdc00) : 0xfffd;
    high_ = 0;
    std::string character;
    unicode::append(character, code_);
    for (const char c : character) take(c);
  }

  void take(char c) {
    if (state_ == State::kName) {
      if (name_.size() <= kMaxToolName) name_ += c;
    } else if (state_ == State::kId) {
      if (id_.size() < kMaxToolName) id_ += c;
    } else {
      argument(c);
    }
  }

  void argument(char c) {
    if (begun_) {
      context_.events->arguments(std::string_view(&c, 1));
    } else {
      pending_ += c;
    }
  }

  MachineStep copy(char c) {
    const State copying = state_;
    const bool part = copier_.push(c);
    if (part && copying == State::kArguments) argument(c);
    if (copier_.done()) state_ = State::kKey;
    return part ? MachineStep::kContinue : key(c);
  }

  void begin() {
    begun_ = true;
    any_ = true;
    raw_.clear();
    context_.events->begin_call(name_, id_);
    context_.events->arguments(pending_);
    pending_.clear();
  }

  void end_object() {
    if (begun_) context_.events->end_call();
    begun_ = false;
    state_ = State::kAfter;
  }

  MachineStep end_of_object() {
    if (!begun_) return refuse_last();
    const bool list = list_;
    end_object();
    if (list) state_ = State::kItem;
    return MachineStep::kContinue;
  }

  MachineStep after(char c) {
    // A brace too many is a frequent mistake of models.
    if (is_json_space(c) || c == ';' || c == ',' || (c == '}' && !bare_)) return MachineStep::kContinue;
    if (c == '{' && !list_) {
      reset_object();
      raw_ = c;
      state_ = State::kKey;
      return MachineStep::kContinue;
    }
    return MachineStep::kDoneBefore;
  }

  MachineContext context_;
  State state_ = State::kStart;
  bool bare_ = false, any_ = false, list_ = false, begun_ = false, escape_ = false, has_arguments_ = false;
  int level_ = 1;
  int hex_left_ = 0;
  uint32_t code_ = 0, high_ = 0;
  JsonCopier copier_;
  std::string key_, name_, id_, pending_;
};

}  // namespace

std::unique_ptr<CallReader> make_json_calls(const MachineContext& context) {
  return std::make_unique<JsonCalls>(context);
}

}  // namespace quire
