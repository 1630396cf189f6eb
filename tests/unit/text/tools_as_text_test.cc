// Tools and their calls in the messages of templates that know neither.
#include "text/chat/tools_as_text.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

Json tools() {
  return Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {"z": 1, "a": 2}}}])");
}

TEST(ToolsAsText, AreInANewSystemMessage) {
  Json messages = Json::parse(R"([{"role": "user", "content": "hi"}])");
  write_tools_as_text(messages, tools(), "Write JSON.");
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0]["role"], "system");
  EXPECT_EQ(messages[0]["content"],
            "You can call these tools:\n{\"name\":\"f\",\"parameters\":{\"z\":1,\"a\":2}}\n\nWrite JSON.");
}

TEST(ToolsAsText, FollowTheSystemMessage) {
  Json messages = Json::parse(R"([{"role": "system", "content": "Be brief."}])");
  write_tools_as_text(messages, tools(), "Write JSON.");
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_TRUE(messages[0]["content"].get<std::string>().starts_with("Be brief.\n\nYou can call"));
  messages = Json::parse(R"([{"role": "developer", "content": [{"type": "text", "text": "Be brief."}]}])");
  write_tools_as_text(messages, tools(), "Write JSON.");
  EXPECT_EQ(messages[0]["content"].size(), 2U);
}

TEST(ToolsAsText, PrecedeTheFirstMessageOfTheUser) {
  Json messages = Json::parse(R"([{"role": "user", "content": "hi"}])");
  EXPECT_TRUE(write_tools_for_user(messages, tools(), "Write JSON."));
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_TRUE(messages[0]["content"].get<std::string>().ends_with("Write JSON.\n\nhi"));
  messages = Json::parse(R"([{"role": "user", "content": [{"type": "text", "text": "hi"}]}])");
  EXPECT_TRUE(write_tools_for_user(messages, tools(), "Write JSON."));
  EXPECT_EQ(messages[0]["content"][1]["text"], "hi");
  messages = Json::parse(R"([{"role": "system", "content": "a"}])");
  EXPECT_FALSE(write_tools_for_user(messages, tools(), "Write JSON."));
}

TEST(ToolsAsText, HaveTheirCallsAndResultsInMessages) {
  Json messages = Json::parse(R"([{"role": "assistant", "content": "So.", "tool_calls": [
      {"id": "1", "function": {"name": "f", "arguments": "{\"a\": 1}"}}, {"function": {"name": "g"}}]},
    {"role": "tool", "tool_call_id": "1", "name": "f", "content": "42"},
    {"role": "tool", "content": [{"type": "text", "text": "43"}]},
    {"role": "assistant", "content": "Done."}])");
  write_calls_as_text(messages);
  EXPECT_EQ(messages, Json::parse(R"([
    {"role": "assistant",
     "content": "So.\n\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n{\"name\": \"g\", \"arguments\": {}}"},
    {"role": "user", "content": "Result of f:\n42\n\nResult:\n43"},
    {"role": "assistant", "content": "Done."}])"));
}

}  // namespace
}  // namespace quire
