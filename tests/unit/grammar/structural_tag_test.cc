// Structural tags: formats, free text with triggers, and what is refused.
#include "grammar/structural_tag.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "unit/grammar/support/oracle.h"

namespace quire::grammar {
namespace {

using TagJson = nlohmann::ordered_json;

// Schemas of these tests are {"const": text}; others are refused.
StructuralTagOptions tag_options() {
  StructuralTagOptions options;
  options.add_schema = [](Grammar& grammar, const TagJson& schema,
                          const std::string& pointer) -> Result<Symbol> {
    if (!schema.is_object() || !schema.contains("const")) return invalid_argument(pointer + "/x: refused");
    return add_lexeme(grammar, text(schema["const"].get<std::string>()));
  };
  options.tokens.find = [](std::string_view name) {
    return name == "<call>" ? std::optional<TokenId>(1) : std::nullopt;
  };
  options.tokens.contains = [](int64_t id) { return id == 1 || id == 2; };
  return options;
}

// Texts in which each special token is written as its number between ⟨ and ⟩.
Output tagged_output(std::string_view text) {
  constexpr std::string_view kOpen = "⟨";
  Output output;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, kOpen.size()) != kOpen) {
      output.push_back(static_cast<uint8_t>(text[i]));
      continue;
    }
    output.push_back(kFirstToken + (text[i + kOpen.size()] - '0'));
    i += 2 * kOpen.size();
  }
  return output;
}

void expect_tag(const std::string& json, const std::vector<std::string>& accepted,
                const std::vector<std::string>& refused) {
  SCOPED_TRACE(json);
  const auto grammar = parse_structural_tag(TagJson::parse(json), tag_options());
  ASSERT_TRUE(grammar.ok()) << grammar.failure().message;
  for (const std::string& text : accepted)
    EXPECT_TRUE(oracle_matches(*grammar, tagged_output(text))) << "accepts '" << text << "'";
  for (const std::string& text : refused)
    EXPECT_FALSE(oracle_matches(*grammar, tagged_output(text))) << "refuses '" << text << "'";
}

void expect_format(const std::string& format, const std::vector<std::string>& accepted,
                   const std::vector<std::string>& refused) {
  expect_tag(R"({"type": "structural_tag", "format": )" + format + "}", accepted, refused);
}

std::string format_refusal(const std::string& format) {
  const auto grammar = parse_structural_tag(TagJson::parse(R"({"format": )" + format + "}"), tag_options());
  return grammar.ok() ? "accepted" : grammar.failure().message;
}

const char* const kTags = R"("tags": [
  {"type": "tag", "begin": "<f=a>", "content": {"type": "json_schema", "json_schema": {"const": "1"}}, "end": "</f>"},
  {"begin": "<f=b>", "content": {"type": "const_string", "value": "2"}, "end": ["</f>", "</g>"]}])";

TEST(StructuralTag, SupportsPrimitiveFormats) {
  expect_format(R"({"type": "const_string", "value": "Hi é"})", {"Hi é"}, {"", "Hi"});
  expect_format(R"({"type": "json_schema", "json_schema": {"const": "{}"}, "style": "json"})", {"{}"}, {""});
  expect_format(R"({"type": "regex", "pattern": "[a-c]{2}"})", {"ab"}, {"a", "abc"});
  expect_format(R"({"type": "grammar", "grammar": "root ::= \"(\" root? \")\""})", {"()", "(())"}, {"(", ""});
  expect_format(R"({"type": "any_text"})", {"", "a\né😀"}, {"\xFF", "⟨1⟩"});
  expect_format(R"({"type": "any_text", "excludes": ["ab", "c"], "max_tokens": null})", {"", "ba", "a"},
                {"ab", "xabx", "c"});
  expect_format(R"({"type": "token", "token": "<call>"})", {"⟨1⟩"}, {"⟨2⟩", "<call>"});
  expect_format(R"({"type": "token", "token": 2})", {"⟨2⟩"}, {"⟨1⟩", "2"});
}

TEST(StructuralTag, SupportsCompositions) {
  const std::string a = R"({"type": "const_string", "value": "a"})";
  const std::string b = R"({"type": "const_string", "value": "b"})";
  expect_format(R"({"type": "sequence", "elements": [)" + a + "," + b + "]}", {"ab"}, {"a", "ba"});
  expect_format(R"({"type": "sequence", "elements": []})", {""}, {"a"});
  expect_format(R"({"type": "or", "elements": [)" + a + "," + b + "]}", {"a", "b"}, {"", "ab"});
  expect_format(R"({"type": "optional", "content": )" + a + "}", {"", "a"}, {"aa"});
  expect_format(R"({"type": "plus", "content": )" + a + "}", {"a", "aa"}, {"", "b"});
  expect_format(R"({"type": "star", "content": )" + a + "}", {"", "aa"}, {"b"});
  expect_format(R"({"type": "repeat", "min": 1, "max": 2, "content": )" + a + "}", {"a", "aa"}, {"", "aaa"});
  expect_format(R"({"type": "repeat", "min": 2, "max": -1, "content": )" + a + "}", {"aa", "aaa"}, {"a"});
}

TEST(StructuralTag, EndsFreeTextWhereTheTagEnds) {
  expect_format(R"({"type": "tag", "begin": "<t>", "content": {"type": "any_text"}, "end": "</t>"})",
                {"<t></t>", "<t>a<b</t>"}, {"<t>", "<t></t></t>", "<t>a</t>b", "a</t>"});
  // The end is where it occurs first, even if occurrences overlap.
  expect_format(R"({"type": "tag", "begin": "", "content": {"type": "any_text"}, "end": "abab"})",
                {"abab", "aabab"}, {"ababab", "abababab"});
  expect_format(R"({"type": "tag", "begin": "<", "content": {"type": "any_text"}, "end": ["xy", "z", ""]})",
                {"<", "<axy", "<axz", "<ax"}, {"<axyz", "<zxy"});
  expect_format(R"({"type": "tag", "begin": "<", "end": ">", "content": {"type": "sequence", "elements": [
                     {"type": "const_string", "value": "n:"}, {"type": "or", "elements": [
                       {"type": "any_text", "excludes": ["q"]}, {"type": "regex", "pattern": ">>"}]}]}})",
                {"<n:>", "<n:abc>", "<n:>>>"}, {"<n:a>>", "<n:q>", "<a>"});
  expect_format(
      R"({"type": "tag", "begin": {"type": "token", "token": 1}, "content": {"type": "any_text"},
          "end": {"type": "token", "token": 2}})",
      {"⟨1⟩⟨2⟩", "⟨1⟩a>⟨2⟩"}, {"⟨1⟩", "⟨1⟩⟨1⟩⟨2⟩", "a"});
}

TEST(StructuralTag, StartsTagsAtTriggers) {
  const std::string head = R"({"type": "triggered_tags", "triggers": ["<f="], )";
  expect_format(head + kTags + "}",
                {"", "Hi", "<f", "<f=a>1</f>", "x<f=a>1</f>y<<f=b>2</g>", "<f=b>2</f><f=b>2</f>"},
                {"<f=", "x<f=c>", "<f=a>2</f>", "<f=a>1", "a<f=b>2</f", "<f=a>1</g>"});
  expect_format(head + kTags + R"(, "at_least_one": true})", {"<f=a>1</f>", "<f=a>1</f>x<f=b>2</f>y"},
                {"", "x", "x<f=a>1</f>"});
  expect_format(head + kTags + R"(, "stop_after_first": true})", {"", "x", "x<f=a>1</f>"},
                {"<f=a>1</f>x", "<f=a>1</f><f=a>1</f>"});
  expect_format(head + kTags + R"(, "at_least_one": true, "stop_after_first": true})",
                {"<f=a>1</f>", "<f=b>2</g>"}, {"", "x<f=a>1</f>", "<f=a>1</f>x"});
  expect_format(head + kTags + R"(, "excludes": ["no"]})", {"n<f=a>1</f>o"}, {"no", "no<f=a>1</f>"});
  expect_format(R"({"type": "triggered_tags", "triggers": ["<a", "[b", "!"], "tags": [
                     {"begin": "<a>", "content": {"type": "any_text"}, "end": "<"},
                     {"begin": "[b", "content": {"type": "const_string", "value": "1"}, "end": "]"}]})",
                {"x<a>[b!<y[b1]", "<", "[b1]"}, {"!", "<a", "x[b]", "<a><<a"});
}

TEST(StructuralTag, StopsTriggersAtTheEndOfTheTag) {
  const std::string inner = std::string(R"({"type": "triggered_tags", "triggers": ["<f="], )") + kTags + "}";
  expect_format(R"({"type": "tag", "begin": "[", "end": "]", "content": )" + inner + "}",
                {"[]", "[x]", "[x<f=a>1</f>y]"}, {"[", "[x]y", "[<f=a>1]", "[x]<f=a>1</f>]"});
}

TEST(StructuralTag, SupportsTagsWithASeparator) {
  const std::string head = R"({"type": "tags_with_separator", "separator": ",", )";
  expect_format(head + kTags + "}", {"", "<f=a>1</f>", "<f=a>1</f>,<f=b>2</g>,<f=a>1</f>"},
                {",", "<f=a>1</f>,", "<f=a>1</f><f=a>1</f>", "x"});
  expect_format(head + kTags + R"(, "at_least_one": true})", {"<f=a>1</f>"}, {""});
  expect_format(head + kTags + R"(, "stop_after_first": true})", {"", "<f=a>1</f>"},
                {"<f=a>1</f>,<f=a>1</f>"});
}

TEST(StructuralTag, DispatchesToFormats) {
  const std::string rules =
      R"("rules": [["<a>", {"type": "const_string", "value": "1"}], ["<b>", {"type": "regex", "pattern": "x+"}]])";
  expect_format(R"({"type": "dispatch", )" + rules + "}", {"", "t<a>1u<b>xx<a>1"}, {"<a>", "<b>y"});
  expect_format(R"({"type": "dispatch", "loop": false, )" + rules + "}", {"", "t<a>1"},
                {"t<a>1u", "<a>1<a>1"});
}

TEST(StructuralTag, ReadsStructuresAndTriggers) {
  expect_tag(R"({"type": "structural_tag", "triggers": ["<f="], "structures": [
                  {"begin": "<f=a>", "schema": {"const": "{}"}, "end": "</f>"},
                  {"begin": "<f=b>", "schema": {"const": "[]"}, "end": "</f>"}]})",
             {"", "text", "a<f=a>{}</f>b<f=b>[]</f>"}, {"<f=a>[]</f>", "<f=", "<f=a>{}"});
}

TEST(StructuralTag, RefusesWithTheJsonPointer) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"1", "/format: an object is expected"},
      {"{}", "/format/type: a string is expected"},
      {R"({"type": "x"})", "/format/type: the format 'x' is not supported"},
      {R"({"type": "any_tokens"})", "/format/type: the format 'any_tokens' is not supported"},
      {R"({"type": "const_string"})", "/format: missing field 'value'"},
      {R"({"type": "const_string", "value": 1})", "/format/value: a string is expected"},
      {R"({"type": "any_text", "max_tokens": 5})", "/format: the field 'max_tokens' is not supported"},
      {R"({"type": "any_text", "excludes": [""]})",
       "/format/excludes/0: a string that is not empty is expected"},
      {R"({"type": "json_schema", "json_schema": {"y": 1}})", "/format/json_schema/x: refused"},
      {R"({"type": "json_schema", "json_schema": {}, "style": "qwen_xml"})",
       "/format/style: only the style json is supported"},
      {R"({"type": "regex", "pattern": "a("})", "/format/pattern: byte 1: missing )"},
      {R"({"type": "grammar", "grammar": "root ::= a"})",
       "/format/grammar: line 1, column 10: the rule 'a' is not defined"},
      {R"({"type": "token", "token": 3})", "/format/token: the model has no such special token"},
      {R"({"type": "or", "elements": []})", "/format/elements: the list is empty"},
      {R"({"type": "sequence", "elements": [{"type": "any_text"}, 2]})",
       "/format/elements/1: an object is expected"},
      {R"({"type": "repeat", "min": 2, "max": 1, "content": {"type": "any_text"}})",
       "/format/min: a number from 0 to max is expected"},
      {R"({"type": "repeat", "min": 0, "max": 99999999999, "content": {"type": "any_text"}})",
       "/format/max: a number up to 50000 is expected"},
      {R"({"type": "tag", "begin": "<", "end": [], "content": {"type": "any_text"}})",
       "/format/end: a string, a list of 1 to 1000 strings or a token is expected"},
      {R"({"type": "tag", "begin": "<", "end": ">", "content": {"type": "star", "content": {"type": "any_text"}}})",
       "/format/content/content: free text in a repeat within a tag is not supported"},
      {R"({"type": "tag", "begin": "<", "end": "ab", "content": {"type": "any_text", "excludes": ["a"]}})",
       "/format/content: the end of the tag contains a text that free text excludes, so that it cannot "
       "occur"},
      {R"({"type": "triggered_tags", "triggers": [], "tags": []})", "/format/triggers: the list is empty"},
      {R"({"type": "triggered_tags", "triggers": ["<a", "<"], "tags": []})",
       "/format/triggers/0: contains another trigger, so that it cannot occur first"},
      {R"({"type": "triggered_tags", "triggers": ["<"], "excludes": ["<"], "tags": []})",
       "/format: a trigger contains a text that free text excludes, so that it cannot occur"},
      {R"({"type": "triggered_tags", "triggers": ["<"], "tags": [{"begin": "x", "end": "", "content": {}}]})",
       "/format/tags/0/begin: starts with none of the triggers"},
      {R"({"type": "dispatch", "rules": [["a"]]})",
       "/format/rules/0: a list of a string and a format is expected"},
  };
  for (const auto& [format, message] : cases) EXPECT_EQ(format_refusal(format), message) << format;
  const auto refusal = [](const char* json) {
    return parse_structural_tag(TagJson::parse(json), tag_options()).failure().message;
  };
  EXPECT_EQ(refusal("[]"), "/: an object is expected");
  EXPECT_EQ(refusal("{}"), "/: missing field 'structures'");
  EXPECT_EQ(refusal(R"({"structures": [{"begin": "<a", "schema": {}}], "triggers": ["<"]})"),
            "/structures/0: missing field 'end'");
}

TEST(StructuralTag, BoundsTheCostOfHostileTags) {
  TagJson nested = {{"type", "any_text"}};
  for (int i = 0; i < 2'000; ++i) nested = {{"type", "star"}, {"content", nested}};
  const auto deep = parse_structural_tag({{"format", nested}}, tag_options());
  ASSERT_FALSE(deep.ok());
  EXPECT_NE(deep.failure().message.find("formats are nested more than 100 deep"), std::string::npos);

  // The content of nested tags is not copied for each place where it can stand.
  TagJson tags = {{"type", "const_string"}, {"value", "x"}};
  for (int i = 0; i < 40; ++i) {
    tags = {{"type", "triggered_tags"},
            {"triggers", {"<"}},
            {"at_least_one", true},
            {"tags", {{{"begin", "<"}, {"content", tags}, {"end", ">"}}}}};
  }
  const auto grammar = parse_structural_tag({{"format", tags}}, tag_options());
  ASSERT_TRUE(grammar.ok()) << grammar.failure().message;
  EXPECT_LT(grammar->rules.size(), 1'000U);

  TagJson triggers = TagJson::array();
  for (int i = 0; i < 1'000; ++i) triggers.push_back(std::to_string(100'000 + i) + std::string(100, 'x'));
  const TagJson many = {{"type", "triggered_tags"}, {"triggers", triggers}, {"tags", TagJson::array()}};
  const auto wide = parse_structural_tag({{"format", many}}, tag_options());
  EXPECT_TRUE(wide.ok()) << wide.failure().message;
}

}  // namespace
}  // namespace quire::grammar
