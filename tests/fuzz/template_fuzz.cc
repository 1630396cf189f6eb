// The source of a chat template: it parses or throws Error, and renders within its limits.
#include "base/error.h"
#include "base/strings.h"
#include "fuzz/fuzz.h"
#include "text/chat/chat_template.h"

namespace quire {
namespace {

ChatRenderOptions make_options() {
  ChatRenderOptions options;
  options.messages = Json::parse(R"([
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi <b>\u00e9</b>", "n": 3, "x": [1, 2.5, null, true]},
    {"role": "assistant", "content": null, "tool_calls": [{"type": "function", "id": "c1",
      "function": {"name": "f", "arguments": {"b": 1, "a": "z"}}}]}])");
  options.tools = Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {}}}])");
  options.special_tokens["bos_token"] = "<s>";
  options.special_tokens["eos_token"] = "</s>";
  options.kwargs = Json::parse(R"({"enable_thinking": true})");
  options.now = LocalTime{};
  return options;
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const quire::ChatRenderOptions options = quire::make_options();
  const std::string source(quire::fuzz::text_of(data, size));
  try {
    const auto parsed = quire::ChatTemplate::parse(source, "fuzz");
    quire::ChatRenderLimits limits;
    limits.max_bytes = size_t{1} << 20;
    limits.max_steps = 20'000;
    const auto text = parsed.render(options, limits);
    if (text.ok() && quire::is_valid_utf8(source))
      quire::fuzz::require(quire::is_valid_utf8(*text), "the rendered text is UTF-8");
  } catch (const quire::Error&) {
  }
  return 0;
}
