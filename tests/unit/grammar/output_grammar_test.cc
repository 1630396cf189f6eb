// The language of outputs with reasoning, calls and answers.
#include "text/output/output_grammar.h"

#include <gtest/gtest.h>

#include "base/strings.h"
#include "grammar/structural_tag.h"
#include "unit/grammar/support/oracle.h"

namespace quire::grammar {
namespace {

using TagJson = nlohmann::ordered_json;

// Schemas of these tests are {"const": text}; others are that of the object {}.
StructuralTagOptions language_options(const FindMarker& token_of) {
  StructuralTagOptions options;
  options.add_schema = [](Grammar& grammar, const TagJson& schema, const std::string&) -> Result<Symbol> {
    return add_lexeme(
        grammar, text(schema.contains("const") ? schema["const"].get<std::string>() : std::string("{}")));
  };
  options.tokens.find = [token_of](std::string_view name) {
    return token_of ? token_of(name) : std::optional<TokenId>();
  };
  options.tokens.contains = [](int64_t id) { return id > 0 && id < 100; };
  return options;
}

class OutputGrammarTest : public testing::Test {
 protected:
  OutputGrammarTest() { options.tools = {{"f", {{"const", "1"}}}, {"g", Json::object()}}; }

  void set_tokens(std::vector<std::string> names) {
    names_ = std::move(names);
    options.token_of = [this](std::string_view name) -> std::optional<TokenId> {
      for (size_t i = 0; i < names_.size(); ++i)
        if (names_[i] == name) return static_cast<TokenId>(i + 1);
      return std::nullopt;
    };
  }

  // The names of tokens in a text are these tokens.
  Output tokens_of(std::string_view text) const {
    Output output;
    while (!text.empty()) {
      size_t size = 0;
      for (size_t i = 0; i < names_.size(); ++i) {
        if (!text.starts_with(names_[i])) continue;
        output.push_back(kFirstToken + static_cast<int32_t>(i) + 1);
        size = names_[i].size();
      }
      if (size == 0) output.push_back(static_cast<uint8_t>(text[0]));
      text.remove_prefix(std::max<size_t>(size, 1));
    }
    return output;
  }

  void expect(const std::vector<std::string>& accepted, const std::vector<std::string>& refused) {
    const Json tag = output_grammar(options);
    SCOPED_TRACE(tag.dump());
    const auto grammar = parse_structural_tag(tag, language_options(options.token_of));
    ASSERT_TRUE(grammar.ok()) << grammar.failure().message;
    for (const std::string& text : accepted)
      EXPECT_TRUE(oracle_matches(*grammar, tokens_of(text))) << "accepts '" << text << "'";
    for (const std::string& text : refused)
      EXPECT_FALSE(oracle_matches(*grammar, tokens_of(text))) << "refuses '" << text << "'";
  }

  OutputGrammarOptions options;

 private:
  std::vector<std::string> names_;
};

const std::string kF = "<tool_call>\n{\"name\": \"f\", \"arguments\": 1}\n</tool_call>";
const std::string kG = "<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>";

TEST_F(OutputGrammarTest, DemandsCallsOfTheTools) {
  options.calls = find_call_format("hermes");
  expect({kF, kG, kF + "\n" + kG}, {"", "text", "x" + kF, kF + "x", kF + kG, "<tool_call>"});
  options.parallel = false;
  expect({kF, kG}, {kF + "\n" + kG});
}

TEST_F(OutputGrammarTest, WritesMarkersAsTheirTokens) {
  set_tokens({"<tool_call>", "</tool_call>"});
  options.calls = find_call_format("hermes");
  expect({kF}, {"\n{\"name\": \"f\", \"arguments\": 1}\n"});
  options.any_text = true;
  expect({"", "text", "text" + kF + " and " + kG, kF}, {"<tool_call>", "a<tool_call>b</tool_call>"});
}

TEST_F(OutputGrammarTest, ConstrainsCallsWithinText) {
  options.calls = find_call_format("hermes");
  options.any_text = true;
  expect({"", "some <b>text", kF, "a" + kF + "b" + kG + "c"}, {"a<tool_call>b", kF + "<tool_call>"});
  options.parallel = false;
  expect({"", "text", "a" + kF}, {kF + kG, kF + "b"});
}

TEST_F(OutputGrammarTest, TellsTextFromCallsWithoutMarkers) {
  options.calls = find_call_format("json");
  options.any_text = true;
  expect({"", "text {", R"({"name": "f", "arguments": 1})"}, {"{", " {", "[", R"({"name": "h"})"});
}

TEST_F(OutputGrammarTest, HasReasoningBeforeTheCalls) {
  options.calls = find_call_format("hermes");
  options.reasoning = find_reasoning_format("qwen3");
  expect({kF, "<think>\n1 < 2\n</think>\n\n" + kF}, {"<think>a" + kF, "a</think>" + kF, "<think></think>"});
  options.start = OutputStart::kReasoning;
  expect({"</think>" + kF, "thoughts</think>\n" + kF}, {kF, "</think></think>" + kF});
  options.start = OutputStart::kText;
  options.reasoning_is_over = true;
  expect({kF}, {"<think></think>" + kF});
}

TEST_F(OutputGrammarTest, ConstrainsTheAnswerAfterTheReasoning) {
  options.tools.clear();
  options.reasoning = find_reasoning_format("deepseek_r1");
  options.start = OutputStart::kReasoning;
  options.answer = Json{{"type", "const_string"}, {"value", "yes"}};
  expect({"no</think>yes", "</think>yes"}, {"yes", "no</think>\nyes", "no</think>no", "</think>yes!"});
  options.answer_is_json = true;
  expect({"no</think>\n\nyes"}, {"no</think>\n\n\nyes"});
  set_tokens({"</think>"});
  expect({"no</think>yes"}, {"no</think></think>yes"});
}

TEST_F(OutputGrammarTest, AllowsCallsInsteadOfTheAnswer) {
  options.calls = find_call_format("hermes");
  options.answer = Json{{"type", "const_string"}, {"value", "yes"}};
  expect({"yes", kF}, {"", "yes" + kF, kF + "yes"});
}

TEST_F(OutputGrammarTest, KnowsTheEndOfASection) {
  options.calls = find_call_format("deepseek_v31");
  const auto call = [](const char* name, const char* arguments) {
    return cat("<｜tool▁call▁begin｜>", name, "<｜tool▁sep｜>", arguments, "<｜tool▁call▁end｜>");
  };
  const std::string begin = "<｜tool▁calls▁begin｜>", end = "<｜tool▁calls▁end｜>";
  expect({begin + call("f", "1") + end, begin + call("f", "1") + call("g", "{}") + end},
         {begin + end, begin + call("f", "1"), call("f", "1"), begin + call("f", "{}") + end});
  options.any_text = true;
  expect({"a" + begin + call("f", "1") + end + "b"}, {begin + "b"});
}

TEST_F(OutputGrammarTest, NumbersKimisCalls) {
  options.calls = find_call_format("kimi_k2");
  const auto output = [](const char* id) {
    return cat("<|tool_calls_section_begin|><|tool_call_begin|>functions.", id,
               "<|tool_call_argument_begin|>1<|tool_call_end|><|tool_calls_section_end|>");
  };
  expect({output("f:0"), output("f:12")}, {output("f"), output("f:a"), output("h:0")});
}

TEST_F(OutputGrammarTest, HasHarmonysChannels) {
  set_tokens({"<|channel|>", "<|message|>", "<|end|>", "<|start|>", "<|constrain|>"});
  options.calls = find_call_format("harmony");
  options.reasoning = find_reasoning_format("harmony");
  const std::string thoughts = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
  const std::string call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>1";
  expect({call, thoughts + call}, {thoughts, call + call, "<|channel|>final<|message|>x"});
  options.any_text = true;
  expect({call, thoughts + "<|channel|>final<|message|>any"}, {"any"});
  options.any_text = false;
  options.answer = Json{{"type", "const_string"}, {"value", "yes"}};
  options.tools.clear();
  expect({thoughts + "<|channel|>final<|message|>yes"}, {"yes", thoughts + call});
}

TEST_F(OutputGrammarTest, WritesParametersBetweenTags) {
  options.calls = find_call_format("qwen3_coder");
  options.tools = {{"f", Json::parse(R"({"type": "object", "required": ["a", "c"], "properties": {
    "a": {"type": "string"}, "b": {"type": "object", "const": "{}"}, "c": {"enum": ["x", "y"]}}})")}};
  const auto call = [](const std::string& parameters) {
    return cat("<tool_call>\n<function=f>\n", parameters, "</function>\n</tool_call>");
  };
  const std::string a = "<parameter=a>\nany <b>\n</parameter>\n", b = "<parameter=b>\n{}\n</parameter>\n",
                    c = "<parameter=c>\nx\n</parameter>\n";
  expect({call(a + b + c), call(a + c), call(a + "<parameter=c>\ny</parameter>\n"),
          call(a + c) + "\n" + call(a + c)},
         {call(""), call(a), call(c + a), call(a + "<parameter=c>\nz\n</parameter>\n"),
          call(a + "<parameter=b>\nb\n</parameter>\n" + c), call(a + a + c)});
  options.any_text = true;
  expect({"text", "text" + call(a + c) + "text"}, {"<tool_call>", call(a)});
  options.tools = {{"f", {{"type", "object"}}}};
  expect({call(""), call(a + c)}, {call("a")});
}

TEST_F(OutputGrammarTest, WritesJsonBetweenTagsThatSaySo) {
  options.calls = find_call_format("deepseek_v32");
  options.tools = {{"f", Json::parse(R"({"type": "object", "properties": {
    "a": {"type": "string"}, "b": {"type": "array", "const": "[]"}}})")}};
  const auto call = [](const std::string& parameters) {
    return cat("<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n", parameters,
               "</｜DSML｜invoke>\n</｜DSML｜function_calls>");
  };
  const std::string a = "<｜DSML｜parameter name=\"a\" string=\"true\">A</｜DSML｜parameter>\n",
                    b = "<｜DSML｜parameter name=\"b\" string=\"false\">[]</｜DSML｜parameter>\n";
  expect({call(""), call(a + b), call(b)},
         {call(b + a), call("<｜DSML｜parameter name=\"b\" string=\"true\">")});
}

TEST_F(OutputGrammarTest, ExistsForFormatsWithAText) {
  EXPECT_TRUE(has_grammar(*find_call_format("hermes"), {}));
  EXPECT_TRUE(has_grammar(*find_call_format("phi4_mini_json"), {}));
  EXPECT_FALSE(has_grammar(*find_call_format("lfm2"), {}));
}

TEST_F(OutputGrammarTest, KnowsWhichSchemasTagsCanExpress) {
  const auto can_write = [&](const char* format, const std::string& schema) {
    return can_write_arguments(*find_call_format(format), {}, Json::parse(schema));
  };
  const auto with_parameter = [](const std::string& schema) {
    return cat(R"({"type":"object","$defs":{"U":{"enum":["x"]}},"properties":{"a":)", schema, "}}");
  };
  for (const char* schema :
       {"{}", R"({"type":"string","description":"d"})", R"({"type":["string","null"]})",
        R"({"type":"integer"})", R"({"anyOf":[{"type":"string"},{"type":"null"}]})", R"({"enum":["x","y"]})",
        R"({"$ref":"#/$defs/U"})", R"({"type":"array","items":{"type":"string","pattern":"a+"}})",
        R"({"const":"x"})"})
    EXPECT_TRUE(can_write("qwen3_coder", with_parameter(schema))) << schema;
  for (const char* schema : {R"({"type":"string","pattern":"a+"})", R"({"type":"string","maxLength":3})",
                             R"({"enum":["x<"]})", R"({"enum":["x",5]})", R"({"enum":["x\n"]})",
                             R"({"anyOf":[{"type":"string","minLength":1},{"type":"null"}]})", "true"})
    EXPECT_FALSE(can_write("qwen3_coder", with_parameter(schema))) << schema;
  EXPECT_FALSE(can_write("qwen3_coder", R"({"type":"object","required":["b"],"properties":{"a":{}}})"));
  EXPECT_FALSE(can_write("qwen3_coder", R"({"type":"object","properties":{"a b":{}}})"));
  EXPECT_FALSE(can_write("qwen3_coder", R"({"type":"object","minProperties":1})"));
  EXPECT_TRUE(can_write("qwen3_coder", R"({"type":"object","additionalProperties":false})"));
  EXPECT_TRUE(can_write("hermes", with_parameter(R"({"type":"string","pattern":"a+"})")));
}

TEST_F(OutputGrammarTest, ExistsWithinTextWhereNoOtherMarkerBeginsCalls) {
  bool special = true;
  const auto exists = [&](const char* format) {
    return has_grammar_within_text(*find_call_format(format), options.token_of,
                                   [&](TokenId) { return special; });
  };
  EXPECT_TRUE(exists("hermes"));
  EXPECT_FALSE(exists("phi4_mini_json")) << "text may begin as the word functools does";
  EXPECT_FALSE(exists("lfm2"));
  EXPECT_TRUE(exists("qwen3_coder"));
  set_tokens({"<tool_call>", "<|python_tag|>"});
  EXPECT_TRUE(exists("llama3_json"));
  special = false;
  EXPECT_TRUE(exists("hermes"));
  EXPECT_FALSE(exists("xlam")) << "the token <tool_call> is text";
}

}  // namespace
}  // namespace quire::grammar
