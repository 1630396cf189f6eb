// read_chat_request, and the forms in which templates get messages.
#include "text/chat/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "text/chat/template_forms.h"
#include "unit/text/chat_case.h"

namespace quire::test {
namespace {

using testing::HasSubstr;

ChatRequest read(const std::string& object) {
  auto request = read_chat_request(parse_request_json(object, "the test").value());
  EXPECT_TRUE(request.ok()) << object << ": " << request.failure().message;
  return request.ok() ? std::move(request).value() : ChatRequest();
}

std::string refusal(const std::string& object) {
  const auto request = read_chat_request(parse_request_json(object, "the test").value());
  return request.ok() ? "accepted" : request.failure().message;
}

std::string fitted(const ChatTemplate& tmpl, ChatRequest request) {
  ChatRenderOptions options;
  options.messages = std::move(request.messages);
  options.kwargs = std::move(request.kwargs);
  options.tools = std::move(request.tools);
  options.add_generation_prompt = request.add_generation_prompt;
  if (const Status s = fit_messages(tmpl, request.content_format, options); !s.ok())
    return "failed: " + s.failure().message;
  const auto text = tmpl.render(options);
  return text.ok() ? *text : "failed: " + text.failure().message;
}

std::string fitted(const std::string& source, const std::string& messages) {
  return fitted(ChatTemplate::parse(source, "t"), read(R"({"messages": )" + messages + "}"));
}

// One call without content, and its result.
std::string with_call(const std::string& arguments) {
  return R"([{"role": "user", "content": "a"}, {"role": "assistant", "content": null, "tool_calls": [
    {"id": "c", "type": "function", "function": {"name": "f", "arguments": )" +
         arguments + R"(}}]}, {"role": "tool", "tool_call_id": "c", "content": "r"}])";
}

TEST(ChatMessages, GivesThePromptsOfTransformersForAllForms) {
  const Json fixture =
      Json::parse(read_file(std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/fixtures/messages.json"));
  for (const auto& [name, source] : fixture.at("templates").items()) {
    const auto tmpl = ChatTemplate::parse(source.get<std::string>(), name);
    for (const auto& item : fixture.at("cases")) {
      if (item[0] != name) continue;
      const Json fields = {{"messages", fixture.at("conversations").at(item[1].get<std::string>())}};
      EXPECT_EQ(fitted(tmpl, read(fields.dump())), item[2]) << name << ", " << item[1];
    }
  }
}

TEST(ChatMessages, LeavesOutNullFields) {
  const ChatRequest request =
      read(R"({"messages": [{"role": "user", "content": "a", "name": null}], "tools": null})");
  EXPECT_EQ(request.messages.dump(), R"([{"role":"user","content":"a"}])");
  EXPECT_TRUE(request.tools.is_null());
}

TEST(ChatMessages, PassesUnknownFieldsToTheTemplate) {
  EXPECT_EQ(fitted("{{ messages[0].name }}{{ messages[0].extra[1] }}",
                   R"([{"role": "user", "content": "a", "name": "Ann", "extra": [1, 2]}])"),
            "Ann2");
}

TEST(ChatMessages, TurnsTextsOfOtherTypesIntoTextParts) {
  const ChatRequest request = read(R"({"messages": [{"role": "assistant", "content": [
    "a", {"type": "input_text", "text": "b"}, {"type": "refusal", "refusal": "c"},
    {"type": "text", "text": "d", "cache_control": {"type": "ephemeral"}}]}]})");
  EXPECT_EQ(request.messages[0]["content"].dump(),
            R"([{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"text","text":"c"},)"
            R"({"type":"text","text":"d","cache_control":{"type":"ephemeral"}}])");
}

TEST(ChatMessages, RefusesMediaPartsUnlessTheCallerKeepsThem) {
  const Json fields = Json::parse(
      R"({"messages": [{"role": "user", "content": [{"type": "image", "url": "x"}, {"type": "text", "text": "a"}]}]})");
  const auto refused = read_chat_request(fields);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().kind, ErrorKind::kUnsupported);
  const auto kept = read_chat_request(fields, MediaParts::kKeep);
  ASSERT_TRUE(kept.ok());
  const auto lists = ChatTemplate::parse(
      "{% for p in messages[0].content %}{{ p.text if p.type == 'text' else '<' + p.type + '>' }}{% endfor "
      "%}",
      "t");
  EXPECT_EQ(fitted(lists, *kept), "<image>a");
  EXPECT_THAT(fitted(ChatTemplate::parse("{{ messages[0].content }}", "t"), *kept),
              HasSubstr("messages[0].content[0]: the chat template reads only text"));
}

TEST(ChatMessages, NamesReasoningAsTemplatesDo) {
  EXPECT_EQ(fitted("{{ messages[0].reasoning_content }}|{{ messages[0].thinking }}",
                   R"([{"role": "assistant", "content": "x", "reasoning": "r"}])"),
            "r|r");
}

TEST(ChatMessages, PassesArgumentsInTheFormThatTheTemplateReads) {
  const std::string begin = "{% for m in messages %}{% for c in m.tool_calls or [] %}";
  const std::string end = "{% endfor %}{% endfor %}";
  const std::string text = R"("{\"b\":[1,2]}")";
  const std::string object = R"({"b":[1,2]})";
  const std::string both =
      "{% if c.function.arguments is string %}{{ c.function.arguments }}{% else %}{{ c.function.arguments | "
      "tojson }}{% endif %}";
  EXPECT_EQ(fitted(begin + "{{ c.function.arguments | tojson }}" + end, with_call(text)), R"({"b": [1, 2]})");
  EXPECT_EQ(fitted(begin + both + end, with_call(text)), R"({"b":[1,2]})");
  EXPECT_EQ(fitted(begin + both + end, with_call(object)), R"({"b": [1, 2]})");
  EXPECT_EQ(fitted(begin + "{{ '' + c.function.arguments }}" + end, with_call(text)), R"({"b":[1,2]})");
  EXPECT_EQ(fitted(begin + "{{ '' + c.function.arguments }}" + end, with_call(object)), R"({"b": [1, 2]})");
  EXPECT_EQ(fitted(begin + "{% for k in c.function.arguments %}{{ k }};{% endfor %}" + end, with_call(text)),
            "b;");
}

TEST(ChatMessages, PassesTheObjectToTemplatesWithTheirOwnNotationOfCalls) {
  EXPECT_EQ(
      fitted(
          "{% for m in messages %}{% for c in m.tool_calls or [] %}"
          "{% if c.function.arguments is string %}{{ c.function.arguments }}"
          "{% else %}{% for k, v in c.function.arguments.items() %}{{ k }}:<{{ v }}>{% endfor %}{% endif %}"
          "{% endfor %}{% endfor %}",
          with_call(R"("{\"b\": 1}")")),
      "b:<1>");
}

TEST(ChatMessages, KeepsContentAbsentUnlessTheTemplateFails) {
  const std::string absent =
      "{% for m in messages %}{{ 'none' if m.content is not defined else m.content }};{% endfor %}";
  EXPECT_EQ(fitted(absent, with_call("{}")), "a;none;r;");
  EXPECT_EQ(fitted("{% for m in messages %}{{ m.content + ';' }}{% endfor %}", with_call("{}")), "a;;r;");
  // DeepSeek R1 recognizes calls by content that is none.
  EXPECT_EQ(
      fitted("{% for m in messages %}{% if m.content is none %}call{% else %}{{ m.content + ';' }}{% endif "
             "%}{% endfor %}",
             with_call("{}")),
      "a;callr;");
}

TEST(ChatMessages, AsksATemplateAgainWithTheVariablesThatItNeeds) {
  const auto tmpl = ChatTemplate::parse(
      "{{ 'today: ' + date }}{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% "
      "endfor %}",
      "t");
  const std::string messages = R"("messages": [{"role": "user", "content": "a"}])";
  EXPECT_THAT(fitted(tmpl, read("{" + messages + "}")), HasSubstr("'date' is undefined"));
  EXPECT_EQ(fitted(tmpl, read("{" + messages + R"(, "chat_template_kwargs": {"date": "x"}})")), "today: xa");
}

TEST(ChatMessages, TreatsUnknownRolesAsUsers) {
  EXPECT_EQ(fitted("{% for m in messages %}{% for p in m.content %}{{ p.text }};{% endfor %}{% endfor %}",
                   R"([{"role": "observer", "content": "a"}, {"role": "observer", "content": ["b", "c"]}])"),
            "a;b;c;");
}

TEST(ChatMessages, ObeysTheContentFormatOfTheRequest) {
  const auto tmpl = ChatTemplate::parse("{{ messages[0].content | tojson }}", "t");
  ChatRequest request = read(R"({"messages": [{"role": "user", "content": "a"}]})");
  request.content_format = ContentFormat::kOpenAi;
  EXPECT_EQ(fitted(tmpl, request), R"([{"type": "text", "text": "a"}])");
  request = read(R"({"messages": [{"role": "user", "content": ["a", "b"]}]})");
  request.content_format = ContentFormat::kString;
  EXPECT_EQ(fitted(tmpl, request), R"("a\nb")");
}

TEST(ChatMessages, KeepsTheDigitsOfIntegersBeyond64Bits) {
  const std::string digits = "-123456789012345678901234567890";
  const std::string object = R"({"messages": [{"role": "user", "content": "a", "n": )" + digits +
                             R"(}], "chat_template_kwargs": {"k": 98765432109876543210}})";
  EXPECT_EQ(fitted(ChatTemplate::parse("{{ messages[0].n }} {{ messages[0] | tojson }} {{ k }}", "t"),
                   read(object)),
            digits + R"( {"role": "user", "content": "a", "n": )" + digits + "} 98765432109876543210");
  EXPECT_EQ(fitted("{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson "
                   "}}{% endfor %}{% endfor %}",
                   with_call(R"("{\"n\": 123456789012345678901234567890}")")),
            R"({"n": 123456789012345678901234567890})");
}

TEST(ChatMessages, KeepsDigitsInTheNamedFieldsOnly) {
  const std::array<std::string_view, 1> exact = {"b"};
  const auto value = parse_request_json(R"({"a": [18446744073709551616], "b": {"c": 18446744073709551616}})",
                                        "x", {}, exact);
  ASSERT_TRUE(value.ok());
  EXPECT_EQ((*value)["a"][0].get<double>(), 18446744073709551616.0);
  EXPECT_EQ(big_integer((*value)["b"]["c"]), "18446744073709551616");
  EXPECT_EQ(big_integer((*value)["a"][0]), "");
}

TEST(ChatMessages, NamesThePlaceOfAnError) {
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": 5}]})"),
              HasSubstr("messages[1].content must be a string or an array of parts, not a number"));
  EXPECT_THAT(refusal(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]})"),
              HasSubstr("messages[0].content[0].text must be a string"));
  EXPECT_THAT(
      refusal(R"({"messages": )" + with_call(R"("[1]")") + "}"),
      HasSubstr("messages[1].tool_calls: function.arguments must be the text of an object, not of an array"));
  EXPECT_THAT(refusal(R"({"messages": )" + with_call(R"("{")") + "}"), HasSubstr("is not valid JSON"));
  EXPECT_THAT(refusal(R"({"messages": {}})"), HasSubstr("messages must be an array, not an object"));
}

}  // namespace
}  // namespace quire::test
