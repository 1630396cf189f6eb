#include <gtest/gtest.h>

#include "base/strings.h"
#include "base/yield_point.h"
#include "server/openai/answer_format.h"
#include "server/openai/errors.h"
#include "server/openai/field_reader.h"
#include "server/openai/json_out.h"

namespace quire {
namespace {

std::string as_json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonOut, EscapesStrings) {
  std::string every_byte;
  for (int c = 0; c < 128; ++c) every_byte += static_cast<char>(c);
  EXPECT_EQ(Json::parse(as_json_string(every_byte)).get<std::string>(), every_byte);
  EXPECT_EQ(as_json_string("a\"\\\n\t\x01"), "\"a\\\"\\\\\\n\\t\\u0001\"");
  EXPECT_EQ(as_json_string("żółć 中 🎉"), "\"żółć 中 🎉\"");
}

TEST(JsonOut, ReplacesBytesThatAreNotUtf8) {
  for (const std::string_view bad :
       {"\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    const std::string text = as_json_string(bad);
    EXPECT_TRUE(is_valid_utf8(text)) << text;
    EXPECT_NE(text.find("\xEF\xBF\xBD"), std::string::npos);
  }
}

TEST(JsonOut, PutsCommasBetweenValues) {
  std::string text;
  JsonOut(text)
      .begin_object()
      .key("a")
      .begin_array()
      .integer(1)
      .null()
      .begin_object()
      .end_object()
      .end_array()
      .key("b")
      .number(0.5F)
      .key("c")
      .boolean(true)
      .end_object();
  EXPECT_EQ(text, R"({"a":[1,null,{}],"b":0.5,"c":true})");
}

TEST(JsonOut, WritesNullForNonFiniteNumbers) {
  std::string text;
  JsonOut(text)
      .begin_array()
      .number(std::numeric_limits<double>::infinity())
      .number(std::nan(""))
      .number(1e-7F)
      .end_array();
  EXPECT_EQ(text, "[null,null,1e-07]");
}

TEST(ParseJsonObject, RejectsInvalidObjectsWithTheReason) {
  const std::pair<std::string, std::string> cases[] = {
      {"", "no body"},
      {"{", "not valid JSON"},
      {"[1]", "not an array"},
      {"\"x\"", "not a string"},
      {"3", "not a number"},
      {"null", "not null"},
      {"{\"a\": \"\xff\"}", "UTF-8"},
      {"{\"a\": \"\\ud800\"}", "not valid JSON"},
      {"{\"a\": NaN}", "not valid JSON"},
      {"{\"a\": 1e999}", "not valid JSON"},
      {"{\"a\": 1} x", "not valid JSON"},
      {"{\"a\": " + std::string(200, '[') + std::string(200, ']') + "}", "nested deeper"},
      {std::string(1000000, '['), "nested deeper"},
  };
  for (const auto& [body, why] : cases) {
    const auto result = parse_json_object(body);
    ASSERT_FALSE(result.ok()) << body.substr(0, 50);
    EXPECT_NE(result.failure().message.find(why), std::string::npos) << result.failure().message;
    EXPECT_EQ(result.failure().kind, ErrorKind::kInvalidArgument);
  }
}

TEST(ParseJsonObject, RejectsTooManyFieldsQuickly) {
  std::string body = "{";
  for (int i = 0; i < 200000; ++i) body += cat("\"", i, "\":0,");
  body += "\"x\":0}";
  const auto result = parse_json_object(body);
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.failure().message.find("too many fields"), std::string::npos);
}

TEST(ParseJsonObject, KeepsTheOrderOfFields) {
  EXPECT_EQ(parse_json_object(R"({"z":1,"a":{"y":1,"b":2}})")->dump(), R"({"z":1,"a":{"y":1,"b":2}})");
}

TEST(ParseJsonObject, ThrowsIfItIsCancelled) {
  const std::string body = "{\"x\":\"" + std::string(1'000'000, 'a') + "\"}";
  std::stop_source stop;
  EXPECT_TRUE(parse_json_object(body, YieldPoint(stop.get_token())).ok());
  stop.request_stop();
  EXPECT_THROW((void)parse_json_object(body, YieldPoint(stop.get_token())), Cancelled);
}

TEST(WriteTokenIds, ThrowsIfItIsCancelled) {
  const std::vector<TokenId> ids{7, 8};
  std::stop_source stop;
  std::string text;
  JsonOut out(text);
  write_token_ids(out, ids, YieldPoint(stop.get_token()));
  EXPECT_EQ(text, "[7,8]");
  stop.request_stop();
  EXPECT_THROW(write_token_ids(out, ids, YieldPoint(stop.get_token())), Cancelled);
}

TEST(FieldReader, ReadsTypesAndReportsTheInvalidField) {
  const Json body = Json::parse(
      R"({"i": 3, "f": 2.0, "g": 2.5, "s": "x", "b": true, "a": ["p", "q"], "n": null, "huge": 99999999999999999999})");
  FieldReader fields(body);
  EXPECT_EQ(fields.integer32("i"), 3);
  EXPECT_EQ(fields.integer32("f"), 2);
  EXPECT_EQ(fields.number("g"), 2.5);
  EXPECT_EQ(fields.text("s"), "x");
  EXPECT_EQ(fields.boolean("b"), true);
  EXPECT_EQ(fields.texts("a")->size(), 2U);
  EXPECT_EQ(fields.texts("s")->size(), 1U);
  EXPECT_FALSE(fields.integer32("n"));
  EXPECT_FALSE(fields.integer32("absent"));
  EXPECT_TRUE(fields.ok());
  for (const char* name : {"g", "s", "b", "a", "huge"}) {
    FieldReader wrong(body);
    EXPECT_FALSE(wrong.integer32(name));
    ASSERT_FALSE(wrong.ok()) << name;
    EXPECT_EQ(wrong.failure().param, name);
  }
}

TEST(FieldReader, ListsUnreadFields) {
  const Json body = Json::parse(R"({"a": 1, "b": null, "c": 3})");
  FieldReader fields(body);
  (void)fields.any("b");
  EXPECT_EQ(fields.unread(), (std::vector<std::string>{"a", "c"}));
}

TEST(FieldReader, ChecksTokenIdsAgainstTheVocabulary) {
  const Json body =
      Json::parse(R"({"good": [0, 9], "high": [10], "low": [-1], "text": ["a"], "real": [1.5]})");
  FieldReader fields(body);
  EXPECT_EQ(fields.tokens("good", 10), (std::vector<TokenId>{0, 9}));
  for (const char* name : {"high", "low", "text", "real"}) {
    FieldReader wrong(body);
    (void)wrong.tokens(name, 10);
    ASSERT_FALSE(wrong.ok()) << name;
    EXPECT_EQ(wrong.failure().param, name);
  }
}

TEST(ErrorResponse, WritesTheOpenAiErrorObject) {
  const HttpResponse response = error_response(invalid_argument("top_p is wrong", "top_p"));
  EXPECT_EQ(response.status, 400);
  const Json error = Json::parse(response.body)["error"];
  EXPECT_EQ(error["message"], "top_p is wrong");
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_EQ(error["param"], "top_p");
  EXPECT_TRUE(error["code"].is_null());
}

TEST(ErrorResponse, NamesAFieldThatIsNotSupportedAndAsksForNoRetry) {
  const HttpResponse response = error_response(Failure{ErrorKind::kUnsupported, "no suffix", "suffix"});
  EXPECT_EQ(response.status, 400);
  EXPECT_FALSE(response.headers.contains("retry-after"));
  const Json error = Json::parse(response.body)["error"];
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_EQ(error["param"], "suffix");
  EXPECT_EQ(error["code"], "not_supported");
}

TEST(ErrorResponse, HasAStatusPerKind) {
  const std::pair<ErrorKind, int> kinds[] = {
      {ErrorKind::kInvalidArgument, 400}, {ErrorKind::kNotFound, 404},    {ErrorKind::kUnauthorized, 401},
      {ErrorKind::kTooLarge, 413},        {ErrorKind::kUnsupported, 400}, {ErrorKind::kOverloaded, 503},
      {ErrorKind::kInternal, 500}};
  for (const auto& [kind, status] : kinds) EXPECT_EQ(error_response(Failure{kind, "x", ""}).status, status);
  EXPECT_EQ(error_response(Failure{ErrorKind::kOverloaded, "x", ""}).headers.get("retry-after"), "1");
}

TEST(ParseJsonObject, LimitsTheMemoryOfTheParsedForm) {
  const auto repeat = [](std::string_view text, size_t count) {
    std::string all;
    for (size_t i = 0; i < count; ++i) all += text;
    return all;
  };
  const auto kind = [](const std::string& body) {
    const auto parsed = parse_json_object(body);
    return parsed.ok() ? std::nullopt : std::optional(parsed.failure().kind);
  };
  // 5 MB of empty strings in arrays would take about 200 MB.
  EXPECT_EQ(kind("{\"x\":[" + repeat("[\"\"],", 1'000'000) + "1]}"), ErrorKind::kTooLarge);
  EXPECT_EQ(kind("{\"x\":[" + repeat("1,", 4'000'000) + "1]}"), ErrorKind::kTooLarge);
  // Token ids of a long prompt, and thousands of short messages.
  EXPECT_EQ(kind("{\"x\":[" + repeat("12345,", 1'000'000) + "1]}"), std::nullopt);
  EXPECT_EQ(kind("{\"x\":[" + repeat(R"({"role":"user","content":"a"},)", 10'000) + "1]}"), std::nullopt);
  // Brackets and commas inside a string do not count.
  EXPECT_EQ(kind("{\"x\":\"" + repeat("[1,{", 4'000'000) + "\"}"), std::nullopt);
}

}  // namespace
}  // namespace quire
