// The parser of reasoning and tool calls: every format's goldens, whole and split at every byte.
#include "text/output/output_parser.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "unit/text/chat_case.h"

namespace quire::test {
namespace {

struct OutputGolden {
  std::string name, input;
  OutputParserOptions options;
  ParsedOutput expected;
};

OutputStart start_named(const std::string& name) {
  if (name == "reasoning") return OutputStart::kReasoning;
  if (name == "call") return OutputStart::kCall;
  return name == "text" ? OutputStart::kText : OutputStart::kDefault;
}

std::vector<OutputGolden> load_output_goldens() {
  const Json file =
      Json::parse(read_file(std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/fixtures/output/goldens.json"));
  const auto tools = std::make_shared<const ToolSet>(file.at("tools"));
  std::vector<OutputGolden> goldens;
  for (const auto& item : file.at("cases")) {
    OutputGolden golden;
    golden.name = item.at("name");
    golden.input = item.at("input");
    golden.options.calls = find_call_format(item.at("tool_parser").get<std::string>());
    golden.options.reasoning = find_reasoning_format(item.value("reasoning_parser", std::string()));
    golden.options.start = start_named(item.value("start", std::string()));
    if (!item.contains("tools")) golden.options.tools = tools;
    golden.expected.reasoning = item.value("reasoning", std::string());
    golden.expected.text = item.at("text");
    for (const auto& call : item.at("calls")) {
      golden.expected.calls.push_back({call.size() > 3 ? call[3].get<std::string>() : "", call[0], call[1],
                                       call.size() > 2 ? call[2].get<bool>() : true});
    }
    goldens.push_back(std::move(golden));
  }
  return goldens;
}

// Everything that a client sees of an output, as one text.
std::string describe(const ParsedOutput& output) {
  std::string text = "reasoning: " + output.reasoning + "\ntext: " + output.text + "\n";
  for (const auto& call : output.calls)
    text += "call: " + call.name + " [" + call.id + "] " + call.arguments + (call.complete ? "\n" : " ...\n");
  return text;
}

ParsedOutput parse_pieces(const OutputParserOptions& options, std::string_view input,
                          std::span<const size_t> cuts) {
  OutputParser parser(options);
  std::vector<OutputEvent> events;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    parser.push(input.substr(begin, cut - begin), events);
    begin = cut;
  }
  parser.push(input.substr(begin), events);
  parser.finish(events);
  return fold_events(events);
}

TEST(OutputParser, GoldensOfAllFormats) {
  for (const auto& golden : load_output_goldens()) {
    SCOPED_TRACE(golden.name);
    auto expected = golden.expected;
    auto actual = parse_pieces(golden.options, golden.input, {});
    // A call that needs no end is complete when the output ends after it, or not: the goldens do not say.
    EXPECT_EQ(describe(actual), describe(expected)) << golden.input;
  }
}

TEST(OutputParser, EverySplitGivesTheSameResult) {
  for (const auto& golden : load_output_goldens()) {
    SCOPED_TRACE(golden.name);
    const std::string whole = describe(parse_pieces(golden.options, golden.input, {}));
    for (size_t cut = 0; cut <= golden.input.size(); ++cut)
      ASSERT_EQ(describe(parse_pieces(golden.options, golden.input, std::span(&cut, 1))), whole) << cut;
    std::vector<size_t> all(golden.input.size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    ASSERT_EQ(describe(parse_pieces(golden.options, golden.input, all)), whole);
  }
}

TEST(OutputParser, EveryFormatHasAGolden) {
  std::set<std::string_view> calls, reasoning;
  for (const auto& golden : load_output_goldens()) {
    if (golden.options.calls != nullptr && !golden.expected.calls.empty())
      calls.insert(golden.options.calls->name);
    if (golden.options.reasoning != nullptr && !golden.expected.reasoning.empty())
      reasoning.insert(golden.options.reasoning->name);
  }
  for (const auto& format : call_formats()) EXPECT_TRUE(calls.contains(format.name)) << format.name;
  for (const auto& format : reasoning_formats()) {
    if (!format.before_text.empty()) continue;  // has no reasoning
    EXPECT_TRUE(reasoning.contains(format.name)) << format.name;
  }
}

TEST(OutputParser, PlainTextStaysInEveryFormat) {
  const std::string text =
      "Hello, W\xc3\xb6rld!\n\n* a < b, [1, 2], {\"x\": {}}\n* f(x) = <b>bold</b> `code`\n\nBye.";
  for (const auto& format : call_formats()) {
    SCOPED_TRACE(format.name);
    OutputParserOptions options;
    options.calls = &format;
    EXPECT_EQ(describe(parse_pieces(options, text, {})), "reasoning: \ntext: " + text + "\n");
  }
}

// Bytes that were pushed and are not in an event are held back: no more than the longest marker, without one
// no more than the beginning of a call with a name.
TEST(OutputParser, HoldsBackNoMoreThanAMarker) {
  const std::string text = "a < b <| c <t [ d { e \"name\" f <tool_cal g [TOOL_ h <function i\n";
  for (const auto& format : call_formats()) {
    SCOPED_TRACE(format.name);
    size_t longest = 0;
    for (const auto& marker : format.markers) longest = std::max(longest, marker.text.size());
    const size_t limit = std::max<size_t>(longest, 12);
    OutputParserOptions options;
    options.calls = &format;
    OutputParser parser(options);
    std::vector<OutputEvent> events;
    for (size_t i = 0; i < text.size(); ++i) {
      parser.push(std::string_view(text).substr(i, 1), events);
      ASSERT_LT(i + 1 - fold_events(events).text.size(), limit) << i;
    }
  }
}

TEST(OutputParser, StoppedOutputLosesNothing) {
  for (const auto& golden : load_output_goldens()) {
    SCOPED_TRACE(golden.name);
    for (size_t size = 0; size <= golden.input.size(); ++size) {
      const auto parsed = parse_pieces(golden.options, std::string_view(golden.input).substr(0, size), {});
      // Calls that are not the last one are complete.
      for (size_t i = 0; i + 1 < parsed.calls.size(); ++i) ASSERT_TRUE(parsed.calls[i].complete) << size;
    }
  }
}

TEST(OutputParser, ArgumentsOfCompleteCallsAreJson) {
  for (const auto& golden : load_output_goldens()) {
    for (const auto& call : parse_pieces(golden.options, golden.input, {}).calls) {
      EXPECT_TRUE(!call.complete || Json::accept(call.arguments)) << golden.name << ": " << call.arguments;
    }
  }
}

TEST(OutputParser, MarkersWithTokensCountOnlyAsTokens) {
  static constexpr TokenId kOpen = 7, kClose = 8;
  OutputParserOptions options;
  options.calls = find_call_format("hermes");
  options.token_of = [](std::string_view text) -> std::optional<TokenId> {
    if (text == "<tool_call>") return kOpen;
    if (text == "</tool_call>") return kClose;
    return std::nullopt;
  };
  OutputParser parser(options);
  EXPECT_TRUE(parser.is_marker(kOpen));
  EXPECT_FALSE(parser.is_marker(9));
  std::vector<OutputEvent> events;
  parser.push("<tool_call>{\"name\": \"a\"}</tool_call>", events);
  parser.push_marker(kOpen, events);
  parser.push("{\"name\": \"b\", \"arguments\": {\"x\": \"</tool_call>\"}}", events);
  parser.push_marker(kClose, events);
  parser.finish(events);
  EXPECT_EQ(describe(fold_events(events)),
            "reasoning: \ntext: <tool_call>{\"name\": \"a\"}</tool_call>\n"
            "call: b [] {\"x\": \"</tool_call>\"}\n");
}

TEST(OutputParser, MarkerTokenEndsACallWithinAString) {
  OutputParserOptions options;
  options.calls = find_call_format("hermes");
  options.token_of = [](std::string_view text) -> std::optional<TokenId> {
    return text == "</tool_call>" ? std::optional<TokenId>(8) : std::nullopt;
  };
  OutputParser parser(options);
  std::vector<OutputEvent> events;
  parser.push("<tool_call>{\"name\": \"b\", \"arguments\": {\"x\": \"y", events);
  parser.push_marker(8, events);
  parser.push("Text", events);
  parser.finish(events);
  EXPECT_EQ(describe(fold_events(events)), "reasoning: \ntext: Text\ncall: b [] {\"x\": \"y\n");
}

// GigaChat's marker consists of two tokens and text.
TEST(OutputParser, TokensWithinLongerMarkersAreRead) {
  OutputParserOptions options;
  options.calls = find_call_format("gigachat3");
  options.token_of = [](std::string_view text) -> std::optional<TokenId> {
    return text == "<|role_sep|>" ? std::optional<TokenId>(4) : std::nullopt;
  };
  OutputParser parser(options);
  EXPECT_TRUE(parser.is_marker(4));
  std::vector<OutputEvent> events;
  parser.push("function call", events);
  parser.push_marker(4, events);
  parser.push("\n{\"name\": \"b\", \"arguments\": {}}", events);
  parser.finish(events);
  EXPECT_EQ(fold_events(events).calls.size(), 1U);
}

TEST(OutputStart, FollowsTheEndOfThePrompt) {
  const auto* think = find_reasoning_format("qwen3");
  EXPECT_EQ(output_start(nullptr, think, "<|im_start|>assistant\n<think>\n"), OutputStart::kReasoning);
  EXPECT_EQ(output_start(nullptr, think, "assistant\n<think>\n\n</think>\n\n"), OutputStart::kText);
  EXPECT_EQ(output_start(nullptr, think, "<|im_start|>assistant\n"), OutputStart::kText);
  const auto* gemma = find_reasoning_format("gemma4");
  EXPECT_EQ(output_start(nullptr, gemma, "model\n<|channel>thought\n"), OutputStart::kReasoning);
  EXPECT_EQ(output_start(nullptr, gemma, "model\n<|channel>thought\n<channel|>"), OutputStart::kText);
  EXPECT_EQ(output_start(find_call_format("functionary"), nullptr, "assistant\n\n>>>"), OutputStart::kCall);
}

TEST(CallId, HasTheFormOfTheModel) {
  EXPECT_EQ(call_id(find_call_format("kimi_k2"), 2, "f", "", 1), "functions.f:2");
  EXPECT_EQ(call_id(find_call_format("mistral"), 0, "f", "", 1).size(), 9U);
  EXPECT_EQ(call_id(find_call_format("hermes"), 0, "f", "", 1).size(), 29U);
  EXPECT_NE(call_id(find_call_format("hermes"), 0, "f", "", 1),
            call_id(find_call_format("hermes"), 0, "f", "", 2));
  EXPECT_EQ(call_id(find_call_format("mistral"), 0, "f", "abc", 1), "abc");
}

TEST(OutputFormats, NamesAreUnique) {
  std::set<std::string_view> names;
  for (const auto& format : call_formats()) {
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
    for (const auto alias : format.aliases) EXPECT_TRUE(alias.empty() || names.insert(alias).second) << alias;
    EXPECT_TRUE(format.reasoning.empty() || find_reasoning_format(format.reasoning) != nullptr)
        << format.name;
  }
}

// The parser reads untrusted text of any length: nothing in it may take more than constant time per byte.
TEST(OutputParser, SourcesUseNoRegularExpressions) {
  const auto dir = std::filesystem::path(QUIRE_SOURCE_DIR) / "src/text/output";
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    const std::string source = read_file(entry.path());
    ++files;
    for (const char* word : {"regex", "pcre2"})
      EXPECT_EQ(source.find(word), std::string::npos) << entry.path() << ": " << word;
  }
  EXPECT_GT(files, 10U);
}

}  // namespace
}  // namespace quire::test
