// How calls are written: the parser of each format returns them.
#include "text/output/call_text.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "text/output/output_parser.h"

namespace quire {
namespace {

struct Written {
  std::string name, arguments;
};

// Writes the arguments of a call, which is an object of strings, in the format.
std::string write_arguments(const CallText& text, const std::string& arguments) {
  if (text.parameters == nullptr) return arguments;
  std::string out;
  const ParameterText& p = *text.parameters;
  const Json object = Json::parse(arguments);
  for (const auto& [key, value] : object.items())
    out += cat(p.before_key, key, p.after_key, value.get<std::string>(), p.value_end, p.after_value);
  return out;
}

std::string write_calls(const CallText& text, const std::vector<Written>& calls) {
  std::string out(text.begin);
  for (size_t i = 0; i < calls.size(); ++i) {
    out += cat(i == 0 ? "" : text.separator, text.before_name, written_name(text, calls[i].name),
               text.indexed ? cat(":", i) : "", text.after_name, write_arguments(text, calls[i].arguments),
               text.after_arguments);
  }
  return cat(out, text.end);
}

void expect_parsed(const CallFormat& format, const CallText& text, const std::vector<Written>& calls) {
  const std::string output = write_calls(text, calls);
  SCOPED_TRACE(output);
  OutputParserOptions options;
  options.calls = &format;
  Json tools = Json::array();
  for (const Written& call : calls) tools.push_back({{"name", call.name}});
  options.tools = std::make_shared<const ToolSet>(tools);
  OutputParser parser(options);
  std::vector<OutputEvent> events;
  parser.push(output, events);
  parser.finish(events);
  const ParsedOutput parsed = fold_events(events);
  EXPECT_EQ(parsed.text, "");
  ASSERT_EQ(parsed.calls.size(), calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(parsed.calls[i].name, calls[i].name);
    EXPECT_EQ(parsed.calls[i].arguments, calls[i].arguments);
    EXPECT_TRUE(parsed.calls[i].complete);
  }
}

TEST(CallText, IsWhatTheParserOfTheFormatReads) {
  int num_formats = 0;
  for (const CallFormat& format : call_formats()) {
    const CallText* text = call_text(format, {});
    if (text == nullptr) continue;
    ++num_formats;
    SCOPED_TRACE(format.name);
    if (text->parameters != nullptr) {
      expect_parsed(format, *text,
                    {{"get_weather", R"({"place": "Bern \"CH\" {[<b>", "days": "three"})"}, {"ping", "{}"}});
      continue;
    }
    expect_parsed(format, *text, {{"get_weather", R"({"place": "Bern, \"CH\" ]}</tool_call>"})"}});
    // Harmony's calls end the output.
    if (format.machine == CallMachine::kHarmony) continue;
    expect_parsed(format, *text, {{"get_weather", R"({"a": [1, {"b": null}]})"}, {"ping", "{}"}});
  }
  EXPECT_GT(num_formats, 30);
}

TEST(CallText, IsAListForMistralsModelsWithoutATokenAfterTheName) {
  const CallFormat& format = *find_call_format("mistral");
  const CallText* text = call_text(format, [](std::string_view) { return std::optional<TokenId>(); });
  ASSERT_NE(text, nullptr);
  EXPECT_TRUE(text->json_name);
  expect_parsed(format, *text, {{"f", R"({"a": 1})"}, {"g", "{}"}});
}

TEST(CallText, WritesAnyNameInJson) {
  const CallFormat& format = *find_call_format("hermes");
  const std::string name = "say \"hi\" \\ \n{}";
  ASSERT_TRUE(can_name(format, name));
  expect_parsed(format, *call_text(format, {}), {{name, "{}"}});
}

TEST(CallText, RefusesNamesThatWouldBreakTheFormat) {
  EXPECT_TRUE(can_name(*find_call_format("mistral"), "get_weather-2"));
  EXPECT_FALSE(can_name(*find_call_format("mistral"), "get weather"));
  EXPECT_FALSE(can_name(*find_call_format("mistral"), "a\"b"));
  EXPECT_FALSE(can_name(*find_call_format("kimi_k2"), "a.b"));
  EXPECT_FALSE(can_name(*find_call_format("hermes"), ""));
  EXPECT_FALSE(can_name(*find_call_format("hermes"), std::string(300, 'a')));
}

TEST(CallText, TellsAModelHowToCall) {
  EXPECT_NE(how_to_call(*find_call_format("json"), {}).find(R"({"name": "NAME", "arguments": {"PARAMETER")"),
            std::string::npos);
}

}  // namespace
}  // namespace quire
