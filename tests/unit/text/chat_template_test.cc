// ChatTemplate: locations of errors, rendering options, continue_final_message, the clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/text/chat_case.h"

namespace quire::test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string parse_error(const std::string& source) {
  try {
    static_cast<void>(ChatTemplate::parse(source, "dir/chat.jinja"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

ChatRenderOptions chat(const std::string& messages) {
  ChatRenderOptions options;
  options.messages = Json::parse(messages);
  options.now = parse_now("2026-01-15T12:00:00").value();
  return options;
}

std::string rendered(const std::string& source, const ChatRenderOptions& options) {
  const auto result = ChatTemplate::parse(source, "t").render(options);
  return result.ok() ? *result : "failed: " + result.failure().message;
}

struct BadTemplate {
  const char* source;
  const char* place;
  const char* says;
};

TEST(ChatTemplateParse, ErrorsContainTemplateLineAndExpectedToken) {
  const BadTemplate cases[] = {
      {"a\nb\n{{ x", "dir/chat.jinja:3: ", "expected 'end of print statement', got 'end of template'"},
      {"{% if x %}\n\n", "dir/chat.jinja:2: ", "expected the tag 'elif' or 'else' or 'endif'"},
      {"\n{% for x of y %}{% endfor %}", "dir/chat.jinja:2: ", "expected 'in', got 'of'"},
      {"{% if x %}\n{% endfor %}", "dir/chat.jinja:2: ", "unknown tag 'endfor', expected the tag 'elif'"},
      {"{{ 1 + }}", "dir/chat.jinja:1: ", "expected an expression, got 'end of print statement'"},
      {"{{ (1, 2] }}", "dir/chat.jinja:1: ", "unexpected ']', expected ')'"},
      {"\n\n{{ x|nosuch }}", "dir/chat.jinja:3: ", "No filter named 'nosuch'"},
      {"{{ 'abc }}", "dir/chat.jinja:1: ", "expected ', the end of the string"},
      {"{# \n", "dir/chat.jinja:1: ", "expected '#}'"},
      {"{% raw %}\nx", "dir/chat.jinja:1: ", "expected '{% endraw %}'"},
      {"x\n{% include 'a' %}", "dir/chat.jinja:2: ", "'include' is not supported"},
      {"{% extends 'a' %}", "dir/chat.jinja:1: ", "'extends' is not supported"},
      {"{% import 'a' as b %}", "dir/chat.jinja:1: ", "'import' is not supported"},
  };
  for (const auto& bad : cases) {
    SCOPED_TRACE(bad.source);
    EXPECT_THAT(parse_error(bad.source), StartsWith(bad.place));
    EXPECT_THAT(parse_error(bad.source), HasSubstr(bad.says));
  }
}

TEST(ChatTemplateRender, ReturnsTheExactMessageOfRaiseException) {
  EXPECT_EQ(rendered("{{ raise_exception('Only user and assistant!') }}", chat("[]")),
            "failed: Only user and assistant!");
}

TEST(ChatTemplateRender, OtherErrorsContainTheLine) {
  EXPECT_EQ(rendered("a\n\n{{ nosuch.x }}", chat("[]")),
            "failed: the chat template failed: 'nosuch' is undefined (t:3)");
}

TEST(ChatTemplateRender, DefinesTokensOnlyIfGiven) {
  auto options = chat("[]");
  const std::string source = "{{ bos_token is defined }}{{ eos_token }}";
  EXPECT_EQ(rendered(source, options), "False");
  options.special_tokens["bos_token"] = "<s>";
  options.special_tokens["eos_token"] = "</s>";
  EXPECT_EQ(rendered(source, options), "True</s>");
}

TEST(ChatTemplateRender, ToolsAndDocumentsAreNoneIfAbsent) {
  EXPECT_EQ(rendered("{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}", chat("[]")),
            "TrueTrueTrue");
}

TEST(ChatTemplateRender, KwargsOverrideOtherVariables) {
  auto options = chat("[]");
  options.special_tokens["bos_token"] = "<s>";
  options.kwargs = {{"bos_token", "<mine>"}, {"enable_thinking", false}, {"add_generation_prompt", false}};
  EXPECT_EQ(rendered("{{ bos_token }}{{ enable_thinking }}{{ add_generation_prompt }}", options),
            "<mine>FalseFalse");
}

TEST(ChatTemplateRender, KwargsCannotReplaceMessages) {
  auto options = chat("[]");
  options.kwargs = {{"messages", Json::array()}};
  EXPECT_THAT(rendered("x", options), HasSubstr("may not set 'messages'"));
}

TEST(ChatTemplateRender, RejectsMessagesThatAreNotAnArray) {
  auto options = chat("[]");
  options.messages = Json::object();
  EXPECT_THAT(rendered("x", options), HasSubstr("messages must be an array"));
}

TEST(ChatTemplateRender, KeepsIntegersBeyond64Bits) {
  EXPECT_EQ(rendered("{{ messages[0]|tojson }}", chat(R"([{"id": 18446744073709551615}])")),
            R"({"id": 18446744073709551615})");
}

TEST(ChatTemplateUses, ReportsVariablesOfTheTemplate) {
  const auto tmpl =
      ChatTemplate::parse("{% if tools %}{{ tools|tojson }}{% endif %}{% set x = 1 %}{{ x }}", "t");
  EXPECT_TRUE(tmpl.uses("tools"));
  EXPECT_FALSE(tmpl.uses("documents"));
  EXPECT_FALSE(tmpl.uses("x"));
}

constexpr const char* kPlain =
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</{{ m.role }}>{% endfor %}";
constexpr const char* kTrims =
    "{% for m in messages %}<{{ m.role }}>{{ m.content|trim }}</{{ m.role }}>{% endfor %}";

TEST(ChatContinue, EndsWithinTheLastMessage) {
  auto options = chat(R"([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Well, "}])");
  options.continue_final_message = true;
  EXPECT_EQ(rendered(kPlain, options), "<user>hi</user><assistant>Well, ");
}

TEST(ChatContinue, TrimsTheTextIfTheTemplateDoes) {
  auto options = chat(R"([{"role": "assistant", "content": "Well,  "}])");
  options.continue_final_message = true;
  EXPECT_EQ(rendered(kTrims, options), "<assistant>Well,");
}

TEST(ChatContinue, ContinuesTheLastTextPart) {
  auto options =
      chat(R"([{"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "image"}]}])");
  options.continue_final_message = true;
  EXPECT_EQ(rendered("{% for m in messages %}{% for c in m.content %}{{ c.text }}{% endfor %}|{% endfor %}",
                     options),
            "a");
}

TEST(ChatContinue, FailsIfTheTemplateDropsTheMessage) {
  auto options = chat(R"([{"role": "assistant", "content": "x"}])");
  options.continue_final_message = true;
  EXPECT_THAT(rendered("no content", options), HasSubstr("does not appear in the chat"));
  EXPECT_THAT(rendered("nothing", options), HasSubstr("not an accepted field"));
}

TEST(ChatContinue, FailsWithoutAMessageToContinue) {
  auto options = chat("[]");
  options.continue_final_message = true;
  EXPECT_THAT(rendered(kPlain, options), HasSubstr("the conversation is empty"));
  options.messages = Json::parse(R"([{"role": "assistant", "content": null}])");
  EXPECT_THAT(rendered(kPlain, options), HasSubstr("has no \"content\" to continue"));
}

TEST(ChatClock, ParsesTimes) {
  const auto time = parse_now("2024-02-29 23:59:58.25");
  ASSERT_TRUE(time.ok());
  EXPECT_EQ(format_time(*time, "%Y-%m-%dT%H:%M:%S.%f %a %j").value(), "2024-02-29T23:59:58.250000 Thu 060");
  EXPECT_EQ(format_time(parse_now("2026-01-15").value(), "%c").value(), "Thu Jan 15 00:00:00 2026");
}

TEST(ChatClock, RejectsInvalidTimes) {
  for (const char* text : {"", "2026", "2026-13-01", "2026-02-30", "2026-01-15T25:00:00",
                           "2026-01-15T12:00:00Z", "-026-01-15"}) {
    EXPECT_FALSE(parse_now(text).ok()) << text;
  }
}

}  // namespace
}  // namespace quire::test
