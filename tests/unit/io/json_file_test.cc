#include "io/json_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "unit/io/io_test_util.h"

namespace quire {
namespace {

using testing::HasSubstr;

TEST(Json, ReadsAllTypesOfValues) {
  const auto v = parse_json(
      R"({"a": [1, -2, 2.5, true, null, "x\u00e9\ud83d\ude00"], "b": {}, "c": 18446744073709551615})", "f");
  EXPECT_EQ(v["a"][0].get<int>(), 1);
  EXPECT_EQ(v["a"][1].get<int>(), -2);
  EXPECT_DOUBLE_EQ(v["a"][2].get<double>(), 2.5);
  EXPECT_TRUE(v["a"][3].get<bool>());
  EXPECT_TRUE(v["a"][4].is_null());
  EXPECT_EQ(v["a"][5].get<std::string>(), "x\xC3\xA9\xF0\x9F\x98\x80");
  EXPECT_TRUE(v["b"].is_object() && v["b"].empty());
  EXPECT_EQ(v["c"].get<uint64_t>(), UINT64_MAX);
}

TEST(Json, ListsKeysInTheOrderOfTheTextIfAsked) {
  std::vector<JsonKey> keys;
  parse_json(R"({"z": {"b": 1, "a": [{"c": 2}]}, "y": 3})", "f", {.keys = &keys});
  std::string text;
  for (const JsonKey& key : keys) text += key.name + std::to_string(key.depth) + " ";
  EXPECT_EQ(text, "z1 b2 a2 c4 y1 ");
}

TEST(Json, ReadsValuesOutsideOfContainers) {
  EXPECT_EQ(parse_json(" 7 ", "f").get<int>(), 7);
  EXPECT_EQ(parse_json("\xEF\xBB\xBF{}", "f"), nlohmann::json::object());
}

TEST(Json, AcceptsBareNanAndInfinity) {
  const auto v = parse_json(R"({"a": NaN, "b": Infinity, "c": -Infinity})", "f");
  EXPECT_TRUE(std::isnan(v["a"].get<double>()));
  EXPECT_EQ(v["b"].get<double>(), INFINITY);
  EXPECT_EQ(v["c"].get<double>(), -INFINITY);
}

TEST(Json, ReadsNumbersAsTheNearestDouble) {
  const auto number = [](const std::string& text) { return parse_json(text, "f").get<double>(); };
  EXPECT_EQ(number("0.1"), 0.1);
  EXPECT_EQ(number("18446744073709551616"), 18446744073709551616.0);
  EXPECT_EQ(number("18446744073709551615.5"), 18446744073709551616.0);
  EXPECT_EQ(number("1.7976931348623157e308"), std::numeric_limits<double>::max());
  EXPECT_EQ(number("4.9e-324"), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(number("1e-400"), 0);
  EXPECT_EQ(number("0." + std::string(400, '0') + "1e5"), 0);
  EXPECT_EQ(number("0." + std::string(100, '0') + "1e101"), 1);
  EXPECT_EQ(number(std::string(300, '1') + "e-299"), 1 / 0.9);
}

TEST(Json, RejectsNumbersThatAreTooBig) {
  const std::vector<std::string> numbers = {"1e309", "-1.8e308", std::string(310, '9'),
                                            std::string(70, '9') + ".5e303",
                                            "0." + std::string(100, '0') + "9e409"};
  for (const std::string& text : numbers) {
    EXPECT_THAT(test::error_of([&] { parse_json(text, "f"); }), HasSubstr("too big")) << text;
  }
}

TEST(Json, ErrorsNameFileAndLine) {
  EXPECT_THAT(test::error_of([] { parse_json("{\n \"a\": 1,\n \"b\": }\n", "config.json"); }),
              HasSubstr("config.json:3: "));
}

TEST(Json, RejectsInvalidText) {
  for (const char* text : {"",         " ",   "{",   "}",   "[1,]",  "{\"a\":1,}", "{\"a\" 1}",
                           "{a:1}",    "\"x", "tru", "1 2", "{} {}", "[1e999]",    "\"\\ud800\"",
                           "\"\xff\"", "'x'", "01",  "+1",  ".5",    "nan",        "// c\n1"}) {
    EXPECT_THROW(parse_json(text, "f"), Error) << text;
  }
  EXPECT_THROW(parse_json(std::string_view("{}\0{}", 5), "f"), Error);
}

TEST(Json, LimitsNesting) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse_json(nested(64), "f"));
  EXPECT_THAT(test::error_of([&] { parse_json(nested(65), "f"); }), HasSubstr("nested deeper than 64"));
  EXPECT_THROW(parse_json(std::string(10'000'000, '['), "f"), Error);
}

TEST(Json, HandlesDuplicateKeys) {
  EXPECT_EQ(parse_json(R"({"a":1,"a":2})", "f")["a"].get<int>(), 2);
  EXPECT_THAT(test::error_of([] { parse_json(R"({"a":1,"a":2})", "f", {.unique_keys = true}); }),
              HasSubstr("duplicate key 'a'"));
}

TEST(TextFile, ReadsAllBytesAndReportsErrors) {
  const test::TempDir dir;
  const std::string text("a\0b\n", 4);
  EXPECT_EQ(read_text_file(dir.write("x", text)), text);
  EXPECT_EQ(read_text_file(dir.write("empty", "")), "");
  EXPECT_THAT(test::error_of([&] { read_text_file(dir.path() / "none"); }), HasSubstr("none: No such file"));
  EXPECT_THAT(test::error_of([&] { read_text_file(dir.path()); }), HasSubstr("not a regular file"));
  EXPECT_THAT(test::error_of([&] { read_text_file(dir.path() / "x", 3); }), HasSubstr("has 4 bytes"));
}

TEST(JsonFile, ErrorsNameThePath) {
  const test::TempDir dir;
  const auto path = dir.write("config.json", "{\n\"a\" 1}");
  EXPECT_THAT(test::error_of([&] { read_json_file(path); }), HasSubstr(path.string() + ":2: "));
}

}  // namespace
}  // namespace quire
