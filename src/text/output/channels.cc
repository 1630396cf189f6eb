// Harmony: every message has a header with its channel and, for a call, its recipient. This machine reads
// the whole output.
#include <algorithm>

#include "text/output/call_machine.h"

namespace quire {
namespace {

constexpr std::string_view kFunctions = "functions.";

class Channels final : public CallReader {
 public:
  explicit Channels(const MachineContext& context) : context_(context) {}

  void start(MarkerRole, std::string_view) override {
    raw_.clear();
    header_.clear();
    channel_.clear();
    recipient_.clear();
    state_ = State::kHeader;
    first_ = true;
  }

  MarkerRoles expected() const override {
    return roles({MarkerRole::kChannel, MarkerRole::kMessage, MarkerRole::kStart, MarkerRole::kConstrain,
                  MarkerRole::kClose, MarkerRole::kCallEnd});
  }

  MachineStep byte(char c) override {
    switch (state_) {
      case State::kBody:
        body(std::string_view(&c, 1));
        break;
      case State::kHeader:
        raw_ += c;
        // An output that does not begin with a header is text.
        if (raw_.size() > kMaxCallHead || (first_ && raw_.size() == 1 && c != ' ')) {
          flush_raw();
          break;
        }
        if (in_type_ && c == ' ') in_type_ = false;
        if (!in_type_) header_ += c;
        break;
      case State::kBetween:
        if (is_json_space(c)) break;
        kind_ = Kind::kText;
        state_ = State::kBody;
        body(std::string_view(&c, 1));
        break;
    }
    return MachineStep::kContinue;
  }

  MachineStep marker(MarkerRole role, std::string_view text) override {
    if (raw_.size() > kMaxCallHead) flush_raw();
    if (role == MarkerRole::kStart || role == MarkerRole::kChannel) {
      if (state_ != State::kHeader) begin_header();
      raw_ += text;
      first_ = false;
      if (role == MarkerRole::kChannel) {
        take_recipient();
        header_.clear();
        in_channel_ = true;
      }
      return MachineStep::kContinue;
    }
    if (state_ == State::kHeader) {
      raw_ += text;
      first_ = false;
      if (role == MarkerRole::kMessage) begin_body();
      // The type of the content, which is JSON.
      if (role == MarkerRole::kConstrain) in_type_ = true;
      if (role == MarkerRole::kClose || role == MarkerRole::kCallEnd) begin_header();
      return MachineStep::kContinue;
    }
    if (role == MarkerRole::kMessage || role == MarkerRole::kConstrain) {
      if (state_ == State::kBody) body(text);
      return MachineStep::kContinue;
    }
    end_body();
    state_ = State::kBetween;
    return MachineStep::kContinue;
  }

  void finish() override {
    if (state_ == State::kHeader && first_) flush_raw();
  }

  bool in_reasoning() const override { return state_ == State::kBody && kind_ == Kind::kReasoning; }

 private:
  enum class State : uint8_t { kHeader, kBody, kBetween };
  enum class Kind : uint8_t { kText, kReasoning, kCall, kIgnored };

  void begin_header() {
    end_body();
    raw_.clear();
    header_.clear();
    channel_.clear();
    recipient_.clear();
    in_channel_ = in_type_ = false;
    state_ = State::kHeader;
  }

  void flush_raw() {
    kind_ = Kind::kText;
    state_ = State::kBody;
    const std::string text = std::move(raw_);
    raw_.clear();
    body(text);
  }

  // Takes " to=functions.name" out of the part of the header that has been read.
  void take_recipient() {
    const size_t at = header_.find("to=");
    if (at == std::string::npos) return;
    const size_t end = std::min(header_.find(' ', at), header_.size());
    recipient_ = header_.substr(at + 3, end - at - 3);
  }

  void begin_body() {
    take_recipient();
    if (in_channel_) channel_ = header_.substr(0, std::min(header_.find(' '), header_.size()));
    raw_.clear();
    state_ = State::kBody;
    separate_ = true;
    if (recipient_.compare(0, kFunctions.size(), kFunctions) == 0) {
      kind_ = Kind::kCall;
      copier_.start();
      context_.events->begin_call(std::string_view(recipient_).substr(kFunctions.size()), "");
    } else if (channel_ == "analysis") {
      kind_ = Kind::kReasoning;
    } else {
      kind_ = recipient_.empty() ? Kind::kText : Kind::kIgnored;
    }
  }

  // Messages of one kind are separated by a line break.
  void body(std::string_view text) {
    switch (kind_) {
      case Kind::kText:
        if (separate_ && any_text_) context_.events->text("\n");
        any_text_ = true;
        context_.events->text(text);
        break;
      case Kind::kReasoning:
        if (separate_ && any_reasoning_) context_.events->reasoning("\n");
        any_reasoning_ = true;
        context_.events->reasoning(text);
        break;
      case Kind::kCall:
        arguments(text);
        break;
      case Kind::kIgnored:
        break;
    }
    separate_ = false;
  }

  // The call is complete with its JSON: the token that ends it ends the output.
  void arguments(std::string_view text) {
    for (const char c : text) {
      if (!context_.events->in_call()) return;
      if (copier_.push(c)) context_.events->arguments(std::string_view(&c, 1));
      if (copier_.done()) context_.events->end_call();
    }
  }

  void end_body() {
    if (context_.events->in_call()) context_.events->end_call();
  }

  MachineContext context_;
  State state_ = State::kHeader;
  Kind kind_ = Kind::kText;
  JsonCopier copier_;
  bool first_ = true;  // nothing but the beginning of a header has been read
  bool in_channel_ = false, in_type_ = false;
  bool separate_ = false, any_text_ = false, any_reasoning_ = false;
  std::string header_, channel_, recipient_;
};

}  // namespace

std::unique_ptr<CallReader> make_channels(const MachineContext& context) {
  return std::make_unique<Channels>(context);
}

}  // namespace quire
