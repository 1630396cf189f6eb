// Requests with tools: which are refused, what the template gets, and what constrains the output.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "server/openai/common_fields.h"
#include "unit/server/requests_fixture.h"

namespace quire {
namespace {

using ToolRequestsTest = RequestsTest;

TEST_F(ToolRequestsTest, RejectsToolsThatCannotBeCalled) {
  const std::string f = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  struct Case {
    std::string fields;
    const char* param;
  };
  const Case cases[] = {
      {R"("tools":"f")", "tools"},
      {R"("tools":[5])", "tools"},
      {R"("tools":[{"type":"function"}])", "tools"},
      {R"("tools":[{"type":"custom","function":{"name":"f"}}])", "tools"},
      {R"("tools":[{"function":{"name":5}}])", "tools"},
      {R"("tools":[{"function":{"name":""}}])", "tools"},
      {cat(R"("tools":[{"function":{"name":")", std::string(257, 'a'), "\"}}]"), "tools"},
      {R"("tools":[{"function":{"name":"f","description":5}}])", "tools"},
      {R"("tools":[{"function":{"name":"f","parameters":[]}}])", "tools"},
      {R"("tools":[{"function":{"name":"f","strict":"yes"}}])", "tools"},
      {R"("tools":[{"function":{"name":"f"}},{"function":{"name":"f"}}])", "tools"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("tools":[],"tool_choice":"required")", "tool_choice"},
      {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice"},
      {cat(f, R"(,"tool_choice":"other")"), "tool_choice"},
      {cat(f, R"(,"tool_choice":5)"), "tool_choice"},
      {cat(f, R"(,"tool_choice":{"type":"function","function":{"name":"g"}})"), "tool_choice"},
      {cat(f, R"(,"tool_choice":{"type":"allowed_tools","name":"f"})"), "tool_choice"},
      {cat(f, R"(,"tool_choice":{"type":"allowed_tools","allowed_tools":5})"), "tool_choice"},
      {cat(f, R"(,"tool_choice":{"type":"allowed_tools","mode":"none","tools":[{"name":"f"}]})"),
       "tool_choice"},
      {cat(f, R"(,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[]})"), "tool_choice"},
      {cat(f, R"(,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":["f"]})"), "tool_choice"},
      {cat(f, R"(,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"name":"g"}]})"),
       "tool_choice"},
      {R"("tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"name":"f"}]})", "tool_choice"},
      {cat(f, R"(,"parallel_tool_calls":"no")"), "parallel_tool_calls"},
      {cat(f, R"(,"tool_choice":"required","response_format":{"type":"json_object"})"), "response_format"},
      {R"("functions":"f")", "functions"},
      {R"("functions":[5])", "tools"},
      {R"("functions":[{"name":"f"}],"function_call":"required")", "function_call"},
      {cat(f, R"(,"functions":[{"name":"f"}])"), "functions"},
      {cat(f, R"(,"tool_choice":"auto","function_call":"auto")"), "function_call"},
      {R"("include_reasoning":"no")", "include_reasoning"},
      {R"("reasoning_format":"other")", "reasoning_format"},
  };
  engine.compiles = true;
  for (const Case& c : cases) {
    const auto spec = chat_with(c.fields);
    ASSERT_FALSE(spec.ok()) << c.fields;
    EXPECT_EQ(spec.failure().param, c.param) << c.fields;
    EXPECT_TRUE(spec.failure().message.ends_with('.')) << spec.failure().message;
  }
}

TEST_F(ToolRequestsTest, LimitsTheNumberOfTools) {
  const auto with_tools = [&](size_t count) {
    Json tools = Json::array();
    for (size_t i = 0; i < count; ++i) tools.push_back({{"function", {{"name", cat("f", i)}}}});
    return chat_with(cat("\"tools\":", tools.dump()));
  };
  EXPECT_TRUE(with_tools(1024).ok());
  EXPECT_EQ(with_tools(1025).failure().param, "tools");
}

TEST_F(ToolRequestsTest, ConstrainsCallsThatAreDemanded) {
  engine.compiles = true;
  options.formats.calls = find_call_format("hermes");
  const std::string tools =
      R"("tools":[{"function":{"name":"f","parameters":{"type":"object","required":["a"]}}},{"function":{"name":"g"}}])";
  const auto language = [&](const std::string& fields) {
    const auto spec = chat_with(cat(tools, fields));
    EXPECT_TRUE(spec.ok()) << spec.failure().message;
    const auto& given = spec->sampling.structured_outputs;
    return given ? given->text : std::string();
  };
  EXPECT_EQ(language(""), "");
  const std::string required = language(R"(,"tool_choice":"required")");
  EXPECT_NE(required.find(R"(\"f\")"), std::string::npos);
  EXPECT_NE(required.find(R"(\"g\")"), std::string::npos);
  EXPECT_NE(required.find(R"("required":["a"])"), std::string::npos);
  EXPECT_NE(required.find("tags_with_separator"), std::string::npos);
  const std::string named = language(R"(,"tool_choice":{"type":"function","function":{"name":"g"}})");
  EXPECT_EQ(named.find(R"(\"f\")"), std::string::npos);
  EXPECT_EQ(language(R"(,"tool_choice":"required","parallel_tool_calls":false)").find("tags_with_separator"),
            std::string::npos);
  EXPECT_NE(language(R"(,"response_format":{"type":"json_object"})").find(R"(\"f\")"), std::string::npos);
}

TEST_F(ToolRequestsTest, AllowsOnlySomeOfTheTools) {
  engine.compiles = true;
  options.formats.calls = find_call_format("hermes");
  const auto with = [&](const char* mode) {
    return chat_with(
        cat(R"("tools":[{"function":{"name":"f"}},{"function":{"name":"g"}},{"function":{"name":"h"}}],
                          "tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":")",
            mode, R"(","tools":[{"type":"function","function":{"name":"h"}},{"name":"g"}]}})"));
  };
  for (const char* mode : {"auto", "required"}) {
    const auto spec = with(mode);
    ASSERT_TRUE(spec.ok()) << spec.failure().message;
    const std::string& language = spec->sampling.structured_outputs->text;
    EXPECT_EQ(language.find(R"(\"f\")"), std::string::npos);
    EXPECT_NE(language.find(R"(\"g\")"), std::string::npos);
    EXPECT_NE(language.find(R"(\"h\")"), std::string::npos);
    EXPECT_EQ(language.find("any_text") != std::string::npos, mode == std::string("auto"));
    // The template gets all of them.
    EXPECT_EQ(engine.last_chat().tools.size(), 3u);
  }
  options.formats.calls = find_call_format("lfm2");
  EXPECT_EQ(with("auto").failure().kind, ErrorKind::kUnsupported);
  EXPECT_TRUE(with("required").ok());
}

TEST_F(ToolRequestsTest, ConstrainsCallsOfStrictToolsOrRefusesThem) {
  engine.compiles = true;
  const std::string tools = R"("tools":[{"function":{"name":"f","strict":true}}])";
  options.formats.calls = find_call_format("hermes");
  auto spec = chat_with(tools);
  ASSERT_TRUE(spec.ok());
  EXPECT_TRUE(spec->sampling.structured_outputs.has_value());
  options.formats.calls = find_call_format("lfm2");
  spec = chat_with(tools);
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.failure().param, "tools");
  EXPECT_EQ(spec.failure().kind, ErrorKind::kUnsupported);
}

TEST_F(ToolRequestsTest, WritesDemandedCallsAsJsonInFormatsWithoutAGrammar) {
  engine.compiles = true;
  const auto format = [&](const char* model, const char* schema) {
    options.formats.calls = find_call_format(model);
    const auto spec = chat_with(
        cat(R"("tools":[{"function":{"name":"f","parameters":)", schema, R"(}}],"tool_choice":"required")"));
    EXPECT_TRUE(spec.ok()) << spec.failure().message;
    return spec->reading->parser.calls->name;
  };
  EXPECT_EQ(format("lfm2", "{}"), "json");
  EXPECT_EQ(format("qwen3_coder", "{}"), "qwen3_coder");
  EXPECT_EQ(format("qwen3_coder", R"({"properties":{"a":{"type":"string","pattern":"a"}}})"), "json");
}

TEST_F(ToolRequestsTest, RefusesNamesThatTheFormatCannotHave) {
  engine.compiles = true;
  const std::string fields = R"("tools":[{"function":{"name":"a \"b\""}}],"tool_choice":"required")";
  options.formats.calls = find_call_format("mistral");
  engine.markers["[ARGS]"] = 256;
  EXPECT_EQ(chat_with(fields).failure().param, "tools");
  options.formats.calls = find_call_format("hermes");
  EXPECT_TRUE(chat_with(fields).ok());
}

TEST_F(ToolRequestsTest, ReportsToolsThatCannotBeEnforced) {
  const auto spec =
      chat_with(R"("tools":[{"function":{"name":"f"}},{"function":{"name":"g"}}],"tool_choice":"required")");
  ASSERT_FALSE(spec.ok());
  EXPECT_EQ(spec.failure().param, "tools");
}

TEST_F(ToolRequestsTest, ConstrainsOnlyTheAnswerAfterReasoning) {
  engine.compiles = true;
  options.formats.reasoning = find_reasoning_format("qwen3");
  const std::string fields = R"("structured_outputs":{"regex":"a+"})";
  EXPECT_EQ(chat_with(fields)->sampling.structured_outputs->kind, StructuredOutputs::Kind::kStructuralTag);
  engine.prompt_end = "<think>\n\n</think>\n\n";
  EXPECT_EQ(chat_with(fields)->sampling.structured_outputs->text, "a+");
  engine.prompt_end = "";
  options.formats.reasoning = nullptr;
  EXPECT_EQ(chat_with(fields)->sampling.structured_outputs->text, "a+");
}

TEST_F(ToolRequestsTest, TranslatesFunctionsToTools) {
  ASSERT_TRUE(chat(R"({"messages":[{"role":"user","content":"a"},
    {"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},
    {"role":"function","name":"f","content":"42"}],
    "functions":[{"name":"f","description":"d"}],"function_call":"auto"})")
                  .ok());
  const ChatRequest prompt = engine.last_chat();
  EXPECT_EQ(prompt.tools[0], Json::parse(R"({"type":"function","function":{"name":"f","description":"d"}})"));
  EXPECT_EQ(prompt.messages[1]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(prompt.messages[2]["role"], "tool");
  EXPECT_EQ(prompt.messages[2]["tool_call_id"], "f");
}

TEST_F(ToolRequestsTest, PassesToolsToTheTemplateUnlessNoneMayBeCalled) {
  const Json body = Json::parse(R"({"messages":[{"role":"user","content":"a"}],
    "tools":[{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}]})");
  FieldReader fields(body);
  const auto prompt = read_chat_fields(fields, {});
  ASSERT_TRUE(prompt.ok());
  EXPECT_EQ(prompt->tools[0]["function"]["parameters"].dump(), R"({"z":1,"a":2})");
  ASSERT_TRUE(
      chat_with(R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none")").ok());
  EXPECT_TRUE(engine.last_chat().tools.is_null());
  EXPECT_FALSE(chat_with(R"("tool_choice":"none","tools":[{"type":"function"}])").ok());
  EXPECT_FALSE(chat_with(R"("tool_choice":"none","tools":"f")").ok());
}

}  // namespace
}  // namespace quire
