// JSON Schema: which texts the grammar of a schema accepts, and which schemas are refused.
#include "grammar/schema.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/grammar/support/oracle.h"

namespace quire::grammar {
namespace {

struct Case {
  std::string schema;
  std::vector<std::string> accepted;
  std::vector<std::string> rejected;
};

SchemaJson parsed(const std::string& text) {
  return SchemaJson::parse(text);
}

void expect_case(const Case& entry, const SchemaOptions& options = {}) {
  SCOPED_TRACE(entry.schema);
  const auto schema = schema_grammar(parsed(entry.schema), options);
  ASSERT_TRUE(schema.ok()) << schema.failure().message;
  for (const std::string& text : entry.accepted)
    EXPECT_TRUE(oracle_matches(schema->grammar, text)) << "accepts " << text;
  for (const std::string& text : entry.rejected)
    EXPECT_FALSE(oracle_matches(schema->grammar, text)) << "rejects " << text;
}

void expect_cases(const std::vector<Case>& cases, const SchemaOptions& options = {}) {
  for (const Case& entry : cases) expect_case(entry, options);
}

std::string refusal(const std::string& schema, const SchemaOptions& options = {}) {
  const auto result = schema_grammar(parsed(schema), options);
  return result.ok() ? "accepted" : result.failure().message;
}

TEST(Schema, AnyValue) {
  expect_case({"true",
               {"null", "true", "-1.5e+10", R"("a\n\u00e9\ud83d\ude00é")", "[]", "{}",
                R"({"a":[1,{"b":null}]})", "[ 1,\n    2 ]"},
               {"", "nul", "01", "1.", R"("\ud83d")", R"("\ude00")", "\"\n\"", "[1,]", R"({"a"})", R"({a:1})",
                "[1  ,2]", " 1", "\"\xff\"", "1e1000"}});
}

TEST(Schema, Spacing) {
  SchemaOptions options;
  const std::string schema = R"({"type":"object","properties":{"a":{"type":"array"},"b":{}}})";
  expect_case({schema, {"{ \"a\" : [ 1 , 2 ] ,\n  \"b\":1\n}"}, {"{\t}", "{  }", "{\n\n}"}}, options);
  options.spacing = JsonSpacing::kSpaced;
  expect_case({schema, {"{\"a\": [1, 2], \"b\": 1}", "{}"}, {"{\"a\":[]}", "{\"a\": [1,2]}", "{ }"}},
              options);
  options.spacing = JsonSpacing::kCompact;
  expect_case({schema, {"{\"a\":[1,2],\"b\":1}"}, {"{\"a\": []}", "{\"a\":[1, 2]}"}}, options);
}

TEST(Schema, ShortestNumbers) {
  SchemaOptions options;
  options.numbers = NumberSpelling::kShortest;
  expect_cases({{R"({"type":"integer"})", {"0", "-7", "120"}, {"0.0", "-0", "3.00", "1e2", "007"}},
                {R"({"type":"integer","minimum":5,"maximum":17})", {"5", "17"}, {"5.0", "4", "18"}},
                {R"({"type":"number","maximum":2.5})", {"2.5", "-0.25", "1"}, {"2.50", "1.0", "-0.0"}},
                {R"({"enum":[1.50,"a",20]})", {"1.5", "20", "\"a\""}, {"1.50", "20.0"}},
                {R"({"type":"number"})", {"2.50", "1e2"}, {"1."}}},
               options);
}

TEST(Schema, Numbers) {
  expect_cases({
      {R"({"type":"integer"})", {"0", "-0", "12", "1.0", "-3.00"}, {"1.5", "01", "1e2", "+1", "\"1\""}},
      {R"({"type":"number"})", {"1.5", "1e2", "-2E-10"}, {"true"}},
      {R"({"type":"number","minimum":-1.5,"maximum":2.25})",
       {"-1.5", "-1.50", "-1.4999", "0", "-0.0", "2.25", "2.2", "1"},
       {"-1.51", "-2", "2.250001", "2.3", "3", "10", "1e0"}},
      {R"({"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1})",
       {"0.1", "0.00001", "0.999"},
       {"0", "0.0", "-0", "1", "1.0", "1.1", "-0.5"}},
      {R"({"type":"integer","minimum":9,"maximum":120})",
       {"9", "10", "99", "120"},
       {"8", "121", "1000", "-9"}},
      {R"({"type":"number","minimum":10,"exclusiveMinimum":true})", {"10.1", "11"}, {"10", "10.0", "9"}},
      {R"({"type":"number","multipleOf":0.25})", {"0", "0.25", "-1.5", "3", "2.750"}, {"0.3", "0.125"}},
      {R"({"type":"integer","multipleOf":7,"minimum":1})",
       {"7", "14", "70", "7000000000007"},
       {"0", "1", "8", "-7", "71"}},
      {R"({"multipleOf":1.5,"not":{"multipleOf":4.5}})",
       {"1.5", "3", "6.0"},
       {"\"a\"", "4.5", "9", "1", "0"}},
      {R"({"const":1e2})", {"100", "100.0"}, {"10", "1000"}},
  });
}

TEST(Schema, Strings) {
  expect_cases({
      {R"({"type":"string","minLength":2,"maxLength":3})",
       {R"("ab")", R"("é€😀")", R"("\n\u00e9")", R"("\ud83d\ude00a")"},
       {R"("a")", R"("abcd")", R"("\n")", "12"}},
      {R"({"type":"string","pattern":"^[a-c]+\\.\"\\n?$"})",
       {R"("ab.\"")", R"("a.\"\n")", R"("a.\"\u000A")"},
       {R"("ab.")", R"("d.\"")"}},
      {R"({"pattern":"b"})", {R"("abc")", R"("\tb")", "1"}, {R"("ac")"}},
      {R"({"type":"string","pattern":"^a","not":{"pattern":"z$"},"maxLength":3})",
       {R"("a")", R"("azb")"},
       {R"("az")", R"("b")", R"("abcd")"}},
      {R"({"enum":["a","ab","b/c","\u0001",1,null]})",
       {R"("a")", R"("ab")", R"("b\/c")", R"("\u0001")", "1.0", "null"},
       {R"("")", R"("b")", "2"}},
  });
}

TEST(Schema, Formats) {
  const auto schema = [](const std::string& format) {
    return R"({"type":"string","format":")" + format + "\"}";
  };
  expect_cases({
      {schema("date"),
       {R"("2024-02-29")", R"("2023-12-31")"},
       {R"("2023-02-29")", R"("2023-04-31")", R"("23-1-1")"}},
      {schema("date-time"),
       {R"("2024-02-29T23:59:59.5Z")", R"("2024-01-01t00:00:00+01:30")"},
       {R"("2024-01-01")", R"("2024-01-01T24:00:00Z")"}},
      {schema("time"), {R"("12:00:00-05:00")"}, {R"("12:00:00")"}},
      {schema("duration"),
       {R"("P1Y2M3DT4H5M6S")", R"("P4W")", R"("PT1H")"},
       {R"("P")", R"("PT")", R"("P1Y2W")", R"("P1YD")"}},
      {schema("email"), {R"("a.b+c@example.org")"}, {R"("a..b@example.org")", R"("@b")", R"("a@")"}},
      {schema("hostname"), {R"("a-b.example")"}, {R"("-a.b")", R"("a..b")", R"("a_b")"}},
      {schema("ipv4"), {R"("192.168.0.255")"}, {R"("256.0.0.1")", R"("1.2.3")", R"("01.2.3.4")"}},
      {schema("ipv6"),
       {R"("::")", R"("::1")", R"("1:2:3:4:5:6:7:8")", R"("fe80::1:2")"},
       {R"(":::")", R"("1::2::3")", R"("1:2:3:4:5:6:7")"}},
      {schema("uuid"),
       {R"("123e4567-e89b-12d3-a456-426614174000")"},
       {R"("123e4567e89b12d3a456426614174000")"}},
      {schema("uri"),
       {R"("https://a.example/b?c=d#e")", R"("urn:a:b")", R"("a:")"},
       {R"("/a")", R"("a b:c")"}},
      {schema("json-pointer"), {R"("")", R"("/a~1b/0")"}, {R"("a")", R"("/~2")"}},
      {schema("iri"), {R"("anything")"}, {"1"}},
  });
}

TEST(Schema, Objects) {
  expect_cases({
      {R"({"type":"object","properties":{"b":{"type":"null"},"a":{"type":"boolean"}},"required":["a"],"additionalProperties":false})",
       {R"({"b":null,"a":true})", R"({"a":false})"},
       {"{}", R"({"b":null})", R"({"a":true,"b":null})", R"({"a":true,"c":1})", R"({"a":true,"a":true})",
        "[]"}},
      {R"({"type":"object","properties":{"a":{"type":"null"}}})",
       {"{}", R"({"a":null})", R"({"a":null,"b":1,"aa":[]})", R"({"b":{}})"},
       {R"({"a":1})", R"({"b":1,"a":null})", R"({"b":1,"a":1})", R"({"b":1,"\u0061":1})"}},
      {R"({"type":"object","required":["x"]})", {R"({"x":1})", R"({"x":1,"y":2})"}, {"{}", R"({"y":1})"}},
      {R"({"type":"object","patternProperties":{"^n":{"type":"null"},"s$":{"enum":[null,1]}},"additionalProperties":{"type":"string"}})",
       {R"({"n":null,"s":1,"ns":null,"x":"y"})"},
       {R"({"n":1})", R"({"ns":1})", R"({"x":1})"}},
      {R"({"type":"object","propertyNames":{"maxLength":1},"maxProperties":2})",
       {R"({"a":1,"b":2})", "{}"},
       {R"({"ab":1})", R"({"a":1,"b":2,"c":3})"}},
      {R"({"type":"object","properties":{"a":{},"b":{},"c":{}},"minProperties":2,"maxProperties":2,"additionalProperties":false})",
       {R"({"a":1,"c":2})", R"({"b":1,"c":2})"},
       {R"({"a":1})", R"({"a":1,"b":1,"c":1})"}},
      {R"({"type":"object","minProperties":1})", {R"({"a":1})", R"({"a":1,"b":1})"}, {"{}"}},
      {R"({"type":"object","dependentRequired":{"b":["a"]},"properties":{"a":{},"b":{}}})",
       {"{}", R"({"a":1})", R"({"a":1,"b":1})"},
       {R"({"b":1})"}},
      {R"({"const":{"k":[1,"x"],"l":{}}})",
       {R"({"k":[1,"x"],"l":{}})"},
       {R"({"k":[1,"x"]})", R"({"k":[1,"x"],"l":{},"m":1})", R"({"k":[1],"l":{}})"}},
  });
}

TEST(Schema, Arrays) {
  expect_cases({
      {R"({"type":"array","items":{"type":"integer"},"minItems":1,"maxItems":3})",
       {"[1]", "[1,2,3]"},
       {"[]", "[1,2,3,4]", "[\"a\"]"}},
      {R"({"type":"array","prefixItems":[{"type":"null"},{"type":"boolean"}],"items":false})",
       {"[]", "[null]", "[null,true]"},
       {"[true]", "[null,true,1]"}},
      {R"({"type":"array","items":[{"type":"null"}],"additionalItems":{"const":1}})",
       {"[null,1,1]"},
       {"[1]", "[null,2]"}},
      {R"({"type":"array","contains":{"const":1},"minContains":2,"maxContains":3})",
       {"[1,1]", "[0,1,2,1,1]"},
       {"[1]", "[1,1,1,1]", "[]"}},
      {R"({"type":"array","contains":{"type":"null"},"not":{"items":{"type":"null"}}})",
       {"[null,1]", "[1,2,null]"},
       {"[null]", "[1]", "[null,null]"}},
      {R"({"type":"array","items":{"enum":["a","b",1]},"uniqueItems":true})",
       {"[]", R"(["b",1,"a"])"},
       {R"(["a","a"])", "[1,1]", R"(["a","b",1,"a"])"}},
      {R"({"type":"array","uniqueItems":true,"maxItems":1})", {"[]", "[[]]"}, {"[1,2]"}},
  });
}

TEST(Schema, Combinations) {
  expect_cases({
      {R"({"anyOf":[{"type":"string","maxLength":1},{"type":"integer","minimum":5}]})",
       {R"("a")", "5"},
       {R"("ab")", "4"}},
      {R"({"oneOf":[{"multipleOf":2},{"multipleOf":3}],"type":"integer"})", {"2", "3", "4"}, {"6", "1", "0"}},
      {R"({"oneOf":[{"type":"object","properties":{"k":{"const":"a"}},"required":["k"]},{"type":"object","properties":{"k":{"const":"b"},"v":{"type":"null"}},"required":["k"]}]})",
       {R"({"k":"a","v":1})", R"({"k":"b","v":null})"},
       {R"({"k":"b","v":1})", R"({"k":"c"})", "{}"}},
      {R"({"if":{"properties":{"t":{"const":1}},"required":["t"]},"then":{"required":["x"]},"else":{"required":["y"]},"type":"object","properties":{"t":{},"x":{},"y":{}}})",
       {R"({"t":1,"x":0})", R"({"t":2,"y":0})", R"({"y":0})"},
       {R"({"t":1,"y":0})", R"({"t":2,"x":0})", "{}"}},
      {R"({"not":{"type":["string","object","array"]}})", {"1", "null"}, {"{}", "[]", R"("a")"}},
      {R"({"type":"object","not":{"required":["a"]}})", {"{}", R"({"b":1})"}, {R"({"a":1})"}},
      {R"({"$ref":"#/$defs/a","maxLength":2,"$defs":{"a":{"type":"string","minLength":1}}})",
       {R"("a")"},
       {R"("")", R"("abc")", "1"}},
      {R"({"allOf":[{"properties":{"a":{"type":"null"}}}],"properties":{"b":{}},"unevaluatedProperties":false,"type":"object"})",
       {R"({"b":1,"a":null})", "{}"},
       {R"({"a":1})", R"({"c":1})"}},
  });
}

TEST(Schema, Recursion) {
  expect_case(
      {R"({"$defs":{"tree":{"type":"object","properties":{"v":{"type":"integer"},"c":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"required":["v"],"additionalProperties":false}},"$ref":"#/$defs/tree"})",
       {R"({"v":1})", R"({"v":1,"c":[{"v":2},{"v":3,"c":[]}]})"},
       {R"({"c":[]})", R"({"v":1,"c":[{}]})"}});
  expect_case({R"({"type":"array","items":{"$ref":"#"}})", {"[]", "[[],[[]]]"}, {"[1]"}});
}

TEST(Schema, ImpossiblePartsAreLeftOut) {
  expect_cases({
      {R"({"type":"object","properties":{"a":{"minimum":2,"maximum":1,"type":"number"},"b":{}}})",
       {R"({"b":1})"},
       {R"({"a":1})"}},
      {R"({"anyOf":[{"type":"string","minLength":3,"maxLength":2},{"type":"null"}]})",
       {"null"},
       {R"("aaa")"}},
  });
}

TEST(Schema, RefusesUnsatisfiableSchemas) {
  const std::string reason = ": no value satisfies the schema.";
  for (const char* schema : {"false", R"({"type":"integer","minimum":3,"maximum":2})", R"({"enum":[]})",
                             R"({"allOf":[{"type":"null"},{"type":"string"}]})",
                             R"({"type":"string","pattern":"^a$","minLength":2})",
                             R"({"type":"array","items":false,"minItems":1})",
                             R"({"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]})",
                             R"({"type":"array","minItems":1,"items":{"$ref":"#"}})", R"({"not":{}})"})
    EXPECT_EQ(refusal(schema), reason) << schema;
}

TEST(Schema, RefusesWithPointerAndReason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"properties":{"a~/b":{"uniqueItems":true}}})", "/properties/a~0~1b/uniqueItems: "},
      {R"({"items":{"$ref":"other.json"}})", "/items/$ref: \"other.json\" refers to another document."},
      {R"({"$ref":"#/nowhere"})", "/$ref: \"#/nowhere\" refers to nothing."},
      {R"({"items":{"pattern":"("}})", "/items/pattern: byte "},
      {R"({"patternProperties":{"(?<=a)b(c)\\1":{}}})", "/patternProperties/(?<=a)b(c)\\1: byte "},
      {R"({"type":"numbr"})", "/type: is not the name of a type."},
      {R"({"minimum":"1"})", "/minimum: must be a number."},
      {R"({"allOf":[]})", "/allOf: must be an array with at least one schema."},
      {R"({"anyOf":[{"$ref":"#"}]})", ": the schema refers to itself for the same value."},
      {R"({"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"$ref":"#/$defs/a"})",
       "/$defs/a: the schema refers to itself"},
      {R"({"$schema":"http://example.org/mine"})", "/$schema: this meta-schema is not known."},
      {R"({"minProperties":3})", "/minProperties: "},
      {R"({"multipleOf":0.123456789})", "/multipleOf: "},
      {R"({"properties":[]})", "/properties: must be an object."},
      {R"({"items":3})", "/items: must be a schema."},
      {"3", ": a schema must be an object, true or false."},
  };
  for (const auto& [schema, message] : cases)
    EXPECT_EQ(refusal(schema).substr(0, message.size()), message) << schema << ": " << refusal(schema);
}

TEST(Schema, NamesIgnoredKeywords) {
  const auto schema = schema_grammar(parsed(
      R"({"title":"t","x-a":1,"properties":{"b":{"format":"iri","default":1},"c":{"format":"date","y":0}}})"));
  ASSERT_TRUE(schema.ok());
  EXPECT_EQ(schema->ignored,
            (std::vector<std::string>{"/x-a", "/properties/b/format: iri", "/properties/c/y"}));
}

TEST(Schema, OlderDraftsIgnoreKeywordsNextToReferences) {
  const std::string schema =
      R"({"definitions":{"a":{"type":"string"}},"properties":{"p":{"$ref":"#/definitions/a","maxLength":1}},"type":"object"})";
  expect_case({schema, {}, {R"({"p":"ab"})"}});
  SchemaOptions options;
  options.draft = Draft::k7;
  expect_case({schema, {R"({"p":"ab"})"}, {R"({"p":1})"}}, options);
}

TEST(Schema, AddsToAGrammar) {
  Grammar grammar;
  const auto first = add_schema(grammar, parsed(R"({"type":"null"})"));
  const auto second = add_schema(grammar, parsed(R"({"type":"array","items":{"type":"boolean"}})"));
  ASSERT_TRUE(first.ok() && second.ok());
  const Symbol start = add_rule(grammar, "start");
  const Symbol separator = add_lexeme(grammar, text("|"));
  grammar.rules.back().alternatives.push_back({first->symbol, separator, second->symbol});
  grammar.start = start.id;
  EXPECT_TRUE(oracle_matches(grammar, "null|[true]"));
  EXPECT_FALSE(oracle_matches(grammar, "null|null"));
}

TEST(SchemaReport, SaysForEachKeywordWhatItDoes) {
  const auto report = check_schema(parsed(
      R"({"title":"t","type":"object","foo":1,"properties":{"a":{"uniqueItems":true,"type":"array"},"b":{"$ref":"x.json"},"c":{"format":"iri"}},"$defs":{"d":{"type":"null"}}})"));
  std::vector<std::string> lines;
  for (const KeywordReport& entry : report) {
    const char* effect = entry.effect == KeywordReport::Effect::kEnforced  ? "enforced"
                         : entry.effect == KeywordReport::Effect::kRefused ? "refused"
                                                                           : "none";
    lines.push_back(entry.pointer + " " + effect +
                    (entry.effect == KeywordReport::Effect::kNone ? " " + entry.reason : ""));
  }
  EXPECT_EQ(lines, (std::vector<std::string>{
                       "/title none annotation", "/type enforced", "/foo none unknown keyword",
                       "/properties enforced", "/$defs none names or holds schemas",
                       "/properties/a/uniqueItems refused", "/properties/a/type enforced",
                       "/properties/b/$ref refused", "/properties/c/format none this format is not enforced",
                       "/$defs/d/type none nothing refers to this schema"}));
}

TEST(ParseSchema, KeepsTheOrderOfKeys) {
  const auto schema = parse_schema(R"({"b":[1,{"z":null,"y":-2.5}],"a":"t"})");
  ASSERT_TRUE(schema.ok());
  EXPECT_EQ(schema->dump(), R"({"b":[1,{"z":null,"y":-2.5}],"a":"t"})");
}

TEST(ParseSchema, RefusesWhatIsNoSchemaText) {
  const auto message = [](const std::string& text) {
    const auto schema = parse_schema(text);
    return schema.ok() ? "accepted" : schema.failure().message;
  };
  EXPECT_EQ(message("{"), ": the schema is not valid JSON.");
  EXPECT_EQ(message("{} x"), ": the schema is not valid JSON.");
  EXPECT_EQ(message(R"({"a":1,"a":2})"), ": the key \"a\" occurs twice in an object.");
  EXPECT_EQ(message(std::string(100'000, '[')), ": the schema is nested too deeply.");
  EXPECT_EQ(message(std::string((1 << 20) + 1, ' ')), ": the schema has more than 1048576 bytes.");
}

}  // namespace
}  // namespace quire::grammar
