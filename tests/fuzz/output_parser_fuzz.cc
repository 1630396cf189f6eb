// The parser of model output: the first bytes select the formats, the rest is the output. However it is
// divided, the result is the same; nothing is written that is not JSON where a call is complete.
#include <algorithm>
#include <vector>

#include "fuzz/fuzz.h"
#include "text/output/output_parser.h"

namespace quire {
namespace {

OutputParserOptions make_parser_options(const uint8_t* data) {
  static const auto tools = std::make_shared<const ToolSet>(Json::parse(R"([
    {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object", "properties": {
      "city": {"type": "string"}, "days": {"type": "integer"}, "flags": {"type": "object"}}}}},
    {"type": "function", "function": {"name": "f"}}])"));
  OutputParserOptions options;
  const auto calls = call_formats();
  const auto reasoning = reasoning_formats();
  if (const size_t row = data[0] % (calls.size() + 1); row < calls.size()) options.calls = &calls[row];
  if (const size_t row = data[1] % (reasoning.size() + 1); row < reasoning.size())
    options.reasoning = &reasoning[row];
  options.start = static_cast<OutputStart>(data[2] & 3);
  if ((data[2] & 4) != 0) options.tools = tools;
  return options;
}

bool equal(const ParsedOutput& a, const ParsedOutput& b) {
  if (a.text != b.text || a.reasoning != b.reasoning || a.calls.size() != b.calls.size()) return false;
  for (size_t i = 0; i < a.calls.size(); ++i) {
    if (a.calls[i].name != b.calls[i].name || a.calls[i].id != b.calls[i].id ||
        a.calls[i].arguments != b.calls[i].arguments || a.calls[i].complete != b.calls[i].complete)
      return false;
  }
  return true;
}

ParsedOutput parse_pieces(const OutputParserOptions& options, std::string_view text, size_t piece) {
  OutputParser parser(options);
  std::vector<OutputEvent> all;
  size_t written = 0;
  for (size_t at = 0; at < text.size(); at += piece) {
    std::vector<OutputEvent> events;
    parser.push(text.substr(at, piece), events);
    for (auto& event : events) {
      written += event.text.size() + event.name.size() + event.id.size();
      all.push_back(std::move(event));
    }
  }
  parser.finish(all);
  // Escapes are the longest that a byte can become.
  fuzz::require(written <= 16 * text.size() + 64, "the events are not much longer than the output");
  return fold_events(all);
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kHead = 4;
  if (size < kHead) return 0;
  const auto options = quire::make_parser_options(data);
  const std::string_view text = quire::fuzz::text_of(data + kHead, size - kHead);
  const auto whole = quire::parse_pieces(options, text, std::max<size_t>(text.size(), 1));
  quire::fuzz::require(quire::equal(whole, quire::parse_pieces(options, text, 1)), "one byte at a time");
  quire::fuzz::require(quire::equal(whole, quire::parse_pieces(options, text, 1 + data[3] % 16)),
                       "in pieces");
  return 0;
}
