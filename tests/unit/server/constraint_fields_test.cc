// The fields of a request that constrain its output.
#include "server/openai/constraint_fields.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace quire {
namespace {

using Kind = StructuredOutputs::Kind;

struct Reading {
  std::optional<StructuredOutputs> spec;
  std::optional<Failure> failure;
};

Reading read(const std::string& fields) {
  const Json body = Json::parse("{" + fields + "}");
  FieldReader reader(body);
  Reading reading;
  reading.spec = read_constraint(reader);
  if (!reader.ok()) reading.failure = reader.failure();
  EXPECT_TRUE(reader.ok() || !reading.spec) << fields;
  EXPECT_TRUE(reader.unread().empty()) << fields;
  return reading;
}

TEST(ConstraintFields, GiveAConstraintUnderEveryName) {
  struct Case {
    const char* fields;
    Kind kind;
    const char* text;
  };
  const Case cases[] = {
      {R"("response_format":{"type":"json_object"})", Kind::kJsonObject, ""},
      {R"("response_format":{"type":"json_object","schema":{"type":"object"}})", Kind::kJsonSchema,
       R"({"type":"object"})"},
      {R"("response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"array"}}})",
       Kind::kJsonSchema, R"({"type":"array"})"},
      {R"("response_format":{"type":"structural_tag","format":{}})", Kind::kStructuralTag,
       R"({"type":"structural_tag","format":{}})"},
      {R"("structured_outputs":{"json":{"type":"null"}})", Kind::kJsonSchema, R"({"type":"null"})"},
      {R"("structured_outputs":{"json":"{\"type\":\"null\"}"})", Kind::kJsonSchema, R"({"type":"null"})"},
      {R"("structured_outputs":{"regex":"a+"})", Kind::kRegex, "a+"},
      {R"("structured_outputs":{"choice":["yes","no"],"regex":null})", Kind::kChoice, R"(["yes","no"])"},
      {R"("structured_outputs":{"grammar":"root ::= \"a\""})", Kind::kGrammar, "root ::= \"a\""},
      {R"("structured_outputs":{"json_object":true})", Kind::kJsonObject, ""},
      {R"("guided_json":{"type":"object"})", Kind::kJsonSchema, R"({"type":"object"})"},
      {R"("guided_regex":"a+")", Kind::kRegex, "a+"},
      {R"("guided_choice":["a"])", Kind::kChoice, R"(["a"])"},
      {R"("guided_grammar":"x")", Kind::kGrammar, "x"},
      {R"("grammar":"root ::= x")", Kind::kGrammar, "root ::= x"},
      {R"("json_schema":{"type":"object"})", Kind::kJsonSchema, R"({"type":"object"})"},
      {R"("ebnf":"root ::= x")", Kind::kGrammar, "root ::= x"},
      {R"("regex":"b")", Kind::kRegex, "b"},
  };
  for (const Case& c : cases) {
    const Reading reading = read(c.fields);
    ASSERT_TRUE(reading.spec) << c.fields << (reading.failure ? reading.failure->message : "");
    EXPECT_EQ(reading.spec->kind, c.kind) << c.fields;
    EXPECT_EQ(reading.spec->text, c.text) << c.fields;
    EXPECT_FALSE(reading.spec->field.empty());
  }
}

TEST(ConstraintFields, AreOptional) {
  for (const char* fields : {R"("n":1)", R"("response_format":{"type":"text"})", R"("guided_json":null)",
                             R"("grammar":"")", R"("response_format":null)"}) {
    const Json body = Json::parse(std::string("{") + fields + "}");
    FieldReader reader(body);
    EXPECT_FALSE(read_constraint(reader)) << fields;
    EXPECT_TRUE(reader.ok()) << fields;
  }
}

TEST(ConstraintFields, CarryTheirOptions) {
  const Reading strict =
      read(R"("response_format":{"type":"json_schema","json_schema":{"strict":true,"schema":{}}})");
  ASSERT_TRUE(strict.spec);
  EXPECT_TRUE(strict.spec->strict);
  const Reading compact = read(R"("structured_outputs":{"json":{},"disable_any_whitespace":true})");
  ASSERT_TRUE(compact.spec);
  EXPECT_TRUE(compact.spec->disable_any_whitespace);
  EXPECT_FALSE(*compact.spec == *strict.spec);
}

TEST(ConstraintFields, AreRefusedIfTheyAreWrong) {
  struct Case {
    const char* fields;
    const char* param;
    const char* message;
  };
  const Case cases[] = {
      {R"("response_format":{})", "response_format", "type must be a string"},
      {R"("response_format":{"type":"xml"})", "response_format", "'xml' is unknown"},
      {R"("response_format":{"type":"json_schema"})", "response_format", "object with a schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{}})", "response_format",
       "object with a schema"},
      {R"("response_format":{"type":"json_schema","json_schema":{"schema":5}})", "response_format",
       "must be an object"},
      {R"("structured_outputs":{})", "structured_outputs", "one of json, regex"},
      {R"("structured_outputs":{"json":{},"regex":"a"})", "structured_outputs", "exclude each other"},
      {R"("structured_outputs":{"yaml":"a"})", "structured_outputs", "yaml is unknown"},
      {R"("structured_outputs":{"regex":"a","whitespace_pattern":" "})", "structured_outputs",
       "not supported"},
      {R"("structured_outputs":{"json":{},"disable_any_whitespace":1})", "structured_outputs",
       "true or false"},
      {R"("guided_choice":"a")", "guided_choice", "array of strings"},
      {R"("guided_choice":[1])", "guided_choice", "array of strings"},
      {R"("guided_regex":5)", "guided_regex", "must be a string"},
      {R"("guided_json":5)", "guided_json", "must be an object"},
      {R"("guided_regex":"a","guided_choice":["b"])", "guided_choice", "exclude each other"},
      {R"("response_format":{"type":"json_object"},"regex":"b")", "regex", "exclude each other"},
  };
  for (const Case& c : cases) {
    const Reading reading = read(c.fields);
    ASSERT_TRUE(reading.failure) << c.fields;
    EXPECT_EQ(reading.failure->param, c.param) << c.fields;
    EXPECT_NE(reading.failure->message.find(c.message), std::string::npos) << reading.failure->message;
  }
}

}  // namespace
}  // namespace quire
