// Tool calls and reasoning in the responses of chats.
#include <gtest/gtest.h>

#include "base/strings.h"
#include "server/openai/tool_fields.h"
#include "unit/server/server_fixture.h"

namespace quire {
namespace {

constexpr const char* kTools =
    R"("tools":[{"type":"function","function":{"name":"get_weather","parameters":{"type":"object"}}},
        {"type":"function","function":{"name":"ping"}}])";
const std::string kCall =
    "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Bern\"}}\n</tool_call>";

class ToolCallsTest : public ServerTest {
 protected:
  ToolCallsTest() {
    engine.formats.calls = find_call_format("hermes");
    engine.formats.reasoning = find_reasoning_format("qwen3");
    engine.markers = {{"<tool_call>", 256}, {"</tool_call>", 257}};
    engine.compiles = true;
  }
  std::string body(const std::string& fields, bool stream = false) const {
    return cat(R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":400)", fields.empty() ? "" : ",",
               fields, stream ? R"(,"stream":true})" : "}");
  }
  Json ask(const std::string& fields) {
    RawClient client(server == nullptr ? start() : server->port());
    const RawResponse response = client.post("/v1/chat/completions", body(fields));
    EXPECT_EQ(response.status, 200) << response.body;
    return response.json();
  }
  Json choice(const std::string& fields) { return ask(fields)["choices"][0]; }
  std::vector<Json> chunks(const std::string& fields) {
    RawClient client(server == nullptr ? start() : server->port());
    return events(client.post("/v1/chat/completions", body(fields, true)).body);
  }
};

// The message and the reason that a stream adds up to, as clients add it up.
Json folded(const std::vector<Json>& chunks) {
  Json message = {{"content", ""}, {"reasoning", ""}, {"tool_calls", Json::array()}};
  Json reason;
  for (const Json& chunk : chunks) {
    for (const Json& choice : chunk["choices"]) {
      const Json& delta = choice["delta"];
      for (const char* field : {"content", "reasoning"}) {
        if (delta.contains(field))
          message[field] = message[field].get<std::string>() + delta[field].get<std::string>();
      }
      for (const Json& part : delta.value("tool_calls", Json::array())) {
        if (part.contains("id")) {
          EXPECT_EQ(part["index"], message["tool_calls"].size());
          EXPECT_EQ(part["type"], "function");
          message["tool_calls"].push_back({{"name", part["function"]["name"]}, {"arguments", ""}});
        }
        Json& call = message["tool_calls"].at(part["index"].get<size_t>());
        call["arguments"] =
            call["arguments"].get<std::string>() + part["function"]["arguments"].get<std::string>();
      }
      if (!choice["finish_reason"].is_null()) reason = choice["finish_reason"];
    }
  }
  message["finish_reason"] = reason;
  return message;
}

// Same, for a response that is not streamed.
Json folded(const Json& choice) {
  const Json& given = choice["message"];
  Json message = {{"content", given["content"].is_null() ? "" : given["content"]},
                  {"reasoning", given.value("reasoning", "")},
                  {"tool_calls", Json::array()}};
  for (const Json& call : given.value("tool_calls", Json::array()))
    message["tool_calls"].push_back(
        {{"name", call["function"]["name"]}, {"arguments", call["function"]["arguments"]}});
  message["finish_reason"] = choice["finish_reason"];
  return message;
}

TEST_F(ToolCallsTest, AreFieldsOfTheMessage) {
  engine.answer = kCall;
  const Json answer = choice(kTools);
  EXPECT_EQ(answer["finish_reason"], "tool_calls");
  const Json& message = answer["message"];
  EXPECT_TRUE(message["content"].is_null());
  ASSERT_EQ(message["tool_calls"].size(), 1U);
  const Json& call = message["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_TRUE(call["id"].get<std::string>().starts_with("call_"));
  EXPECT_EQ(call["function"]["name"], "get_weather");
  EXPECT_EQ(call["function"]["arguments"], R"({"city": "Bern"})");
}

TEST_F(ToolCallsTest, AreTheSameInAStream) {
  const std::string outputs[] = {"Just text.",
                                 kCall,
                                 "Let me see.\n" + kCall + "\n" + kCall + "\nDone.",
                                 "<think>Which city?</think>\n\n" + kCall,
                                 "<tool_call>no call</tool_call>",
                                 "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Be",
                                 "<think>never ends",
                                 ""};
  for (const std::string& output : outputs) {
    engine.answer = output;
    EXPECT_EQ(folded(chunks(kTools)), folded(choice(kTools))) << output;
  }
}

TEST_F(ToolCallsTest, BeginWithTheirNamesInAStream) {
  engine.answer = kCall;
  std::vector<Json> parts;
  for (const Json& chunk : chunks(kTools)) {
    const Json& delta = chunk["choices"][0]["delta"];
    if (delta.contains("tool_calls")) parts.push_back(delta["tool_calls"][0]);
  }
  ASSERT_GT(parts.size(), 2U);
  EXPECT_EQ(parts[0]["function"], (Json{{"name", "get_weather"}, {"arguments", ""}}));
  EXPECT_FALSE(parts[1].contains("id"));
  EXPECT_FALSE(parts[1]["function"].contains("name"));
}

TEST_F(ToolCallsTest, CountOnlyWithTheMarkersOwnTokens) {
  engine.answer = kCall;
  EXPECT_EQ(choice(kTools)["finish_reason"], "tool_calls");
  engine.spells_markers = true;
  const Json answer = choice(kTools);
  EXPECT_EQ(answer["finish_reason"], "stop");
  EXPECT_EQ(answer["message"]["content"], kCall);
  engine.markers.clear();
  EXPECT_EQ(choice(kTools)["finish_reason"], "tool_calls") << "the markers have no tokens";
}

TEST_F(ToolCallsTest, AreTextWithoutTools) {
  engine.answer = kCall;
  for (const std::string& fields : {std::string(), cat(kTools, R"(,"tool_choice":"none")")}) {
    const Json answer = choice(fields);
    EXPECT_EQ(answer["message"]["content"], kCall);
    EXPECT_EQ(answer["finish_reason"], "stop");
  }
}

TEST_F(ToolCallsTest, ThatAreCutEndWithLength) {
  engine.answer = kCall;
  const Json answer = choice(cat(kTools, R"(,"max_completion_tokens":40)"));
  EXPECT_EQ(answer["finish_reason"], "length");
  EXPECT_EQ(answer["message"]["tool_calls"][0]["function"]["name"], "get_weather");
}

TEST_F(ToolCallsTest, ThatTheModelDoesNotFinishEndWithStop) {
  engine.answer = kCall.substr(0, 50);
  EXPECT_EQ(choice(kTools)["finish_reason"], "stop");
}

TEST_F(ToolCallsTest, MayNameAToolThatTheModelInvents) {
  engine.answer = "<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>";
  EXPECT_EQ(choice(kTools)["message"]["tool_calls"][0]["function"]["name"], "other");
}

TEST_F(ToolCallsTest, EndAfterTheFirstWithoutParallelCalls) {
  engine.answer = kCall + "\n" + kCall + std::string(300, 'x');
  const std::string fields = cat(kTools, R"(,"parallel_tool_calls":false)");
  const Json answer = ask(fields);
  EXPECT_EQ(answer["choices"][0]["message"]["tool_calls"].size(), 1U);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_LT(answer["usage"]["completion_tokens"], 100);
  EXPECT_EQ(folded(chunks(fields)), folded(answer["choices"][0]));
  EXPECT_EQ(choice(cat(fields, R"(,"n":2)"))["message"]["tool_calls"].size(), 1U);
  EXPECT_TRUE(test::eventually([&] { return engine.num_active() == 0; }));
}

TEST_F(ToolCallsTest, HaveTheOldFormIfTheRequestHas) {
  engine.answer = kCall + kCall;
  const std::string fields = R"("functions":[{"name":"get_weather","parameters":{"type":"object"}}])";
  const Json answer = choice(fields);
  EXPECT_EQ(answer["finish_reason"], "function_call");
  EXPECT_EQ(answer["message"]["function_call"],
            (Json{{"name", "get_weather"}, {"arguments", R"({"city": "Bern"})"}}));
  EXPECT_FALSE(answer["message"].contains("tool_calls"));
  std::string arguments;
  for (const Json& chunk : chunks(fields)) {
    const Json& delta = chunk["choices"][0]["delta"];
    EXPECT_FALSE(delta.contains("tool_calls"));
    if (delta.contains("function_call")) arguments += delta["function_call"]["arguments"].get<std::string>();
  }
  EXPECT_EQ(arguments, R"({"city": "Bern"})");
}

TEST_F(ToolCallsTest, HaveDifferentIds) {
  engine.answer = kCall + kCall;
  const Json answer = ask(cat(kTools, R"(,"n":2)"));
  std::set<std::string> ids;
  for (const Json& c : answer["choices"])
    for (const Json& call : c["message"]["tool_calls"]) ids.insert(call["id"]);
  EXPECT_EQ(ids.size(), 4U);
}

TEST_F(ToolCallsTest, AreJsonWithoutAFormatOfTheTemplate) {
  engine.formats = {};
  engine.answer = R"({"name": "ping", "arguments": {"n": 1}})";
  EXPECT_EQ(choice(kTools)["message"]["tool_calls"][0]["function"]["arguments"], R"({"n": 1})");
}

TEST_F(ToolCallsTest, FollowTheParserThatIsNamed) {
  options.parsers.calls = "mistral";
  engine.answer = R"([TOOL_CALLS]ping{"n": 1})";
  const Json call = choice(kTools)["message"]["tool_calls"][0];
  EXPECT_EQ(call["function"]["name"], "ping");
  EXPECT_EQ(call["id"].get<std::string>().size(), 9U);
}

TEST_F(ToolCallsTest, AreTextWithoutAParser) {
  options.parsers.calls = "none";
  engine.answer = kCall;
  EXPECT_EQ(choice(kTools)["message"]["content"], kCall);
}

TEST_F(ToolCallsTest, NeedAKnownParser) {
  options.parsers.calls = "unknown";
  try {
    start();
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("--tool-call-parser: 'unknown' is not one of"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("hermes"), std::string::npos);
  }
}

TEST_F(ToolCallsTest, WithLogprobsHaveOneEntryForEachToken) {
  engine.answer = "a" + kCall;
  const std::string fields = cat(kTools, R"(,"return_token_ids":true)");
  const Json whole = choice(fields);
  Json ids = Json::array();
  for (const Json& chunk : chunks(fields))
    for (const Json& id : chunk["choices"][0].value("token_ids", Json::array())) ids.push_back(id);
  EXPECT_EQ(ids, whole["token_ids"]);
}

TEST_F(ToolCallsTest, ComeWithReasoning) {
  engine.answer = "<think>Hm.</think>\n\nIt snows.";
  const Json answer = ask("");
  const Json& message = answer["choices"][0]["message"];
  EXPECT_EQ(message["reasoning"], "Hm.");
  EXPECT_EQ(message["reasoning_content"], "Hm.");
  EXPECT_EQ(message["content"], "\n\nIt snows.");
  // Three characters and the eight of the end.
  EXPECT_EQ(answer["usage"]["completion_tokens_details"]["reasoning_tokens"], 11);
}

TEST_F(ToolCallsTest, FollowReasoningThatThePromptOpens) {
  engine.prompt_end = "<think>\n";
  engine.answer = "Hm.</think>Yes.";
  const Json message = choice("")["message"];
  EXPECT_EQ(message["reasoning"], "Hm.");
  EXPECT_EQ(message["content"], "Yes.");
  engine.answer = "Hm.";
  EXPECT_TRUE(choice("")["message"]["content"].is_null());
}

TEST_F(ToolCallsTest, LeaveOutReasoningOrLeaveItInTheContent) {
  engine.answer = "<think>Hm.</think>Yes.";
  EXPECT_EQ(choice(R"("include_reasoning":false)")["message"],
            Json::parse(R"({"role":"assistant","content":"Yes.","refusal":null})"));
  EXPECT_EQ(choice(R"("reasoning_format":"none")")["message"]["content"], *engine.answer);
}

TEST_F(ToolCallsTest, AreReadFromHarmonysChannels) {
  engine.formats.calls = find_call_format("harmony");
  engine.formats.reasoning = find_reasoning_format("harmony");
  engine.markers = {{"<|channel|>", 300},
                    {"<|message|>", 301},
                    {"<|end|>", 302},
                    {"<|start|>", 303},
                    {"<|constrain|>", 304}};
  const std::string thoughts = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant";
  engine.answer = thoughts + "<|channel|>commentary to=functions.ping <|constrain|>json<|message|>{}";
  const Json answer = choice(kTools);
  EXPECT_EQ(answer["finish_reason"], "tool_calls");
  EXPECT_EQ(answer["message"]["reasoning"], "Hm.");
  EXPECT_EQ(choice("")["message"]["content"], "{}") << "no tool may be called";
  engine.answer = thoughts + "<|channel|>final<|message|>Yes.";
  EXPECT_EQ(choice("")["message"]["content"], "Yes.");
}

}  // namespace
}  // namespace quire
