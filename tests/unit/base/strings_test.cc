#include "base/strings.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(EditDistance, CountsEdits) {
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("Llama", "lLAMA"), 0U);
}

TEST(Strings, CatFormatsEachType) {
  EXPECT_EQ(cat("the prompt has ", 5003, " tokens, ", 0.5, ' ', true),
            "the prompt has 5003 tokens, 0.5 true");
  EXPECT_EQ(cat(std::string("a"), std::string_view("b"), int64_t{-7}, uint64_t{18446744073709551615U}),
            "ab-718446744073709551615");
}

TEST(Strings, ParsesDurations) {
  EXPECT_DOUBLE_EQ(parse_seconds("0"), 0.0);
  EXPECT_DOUBLE_EQ(parse_seconds("30"), 30.0);
  EXPECT_DOUBLE_EQ(parse_seconds("250ms"), 0.25);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5s"), 1.5);
  EXPECT_DOUBLE_EQ(parse_seconds("2m"), 120.0);
  for (const char* text : {"", "ms", "-1", "1h", "1 s", "nan", "inf", "1e300"}) {
    EXPECT_EQ(parse_seconds(text), -1.0) << text;
  }
}

TEST(Strings, ParsesSizesWithBinaryAndDecimalUnits) {
  EXPECT_EQ(parse_bytes("0"), 0);
  EXPECT_EQ(parse_bytes("1024"), 1024);
  EXPECT_EQ(parse_bytes("4GiB"), int64_t{4} << 30);
  EXPECT_EQ(parse_bytes("4g"), int64_t{4} << 30);
  EXPECT_EQ(parse_bytes("1.5 MiB"), 3 * 512 * 1024);
  EXPECT_EQ(parse_bytes("2MB"), 2000000);
  EXPECT_EQ(parse_bytes("7B"), 7);
}

TEST(Strings, RejectsInvalidSizes) {
  for (const char* text : {"", "GiB", "-1", "4XB", "4GiBs", "nan", "1e30T", "four"})
    EXPECT_EQ(parse_bytes(text), -1) << text;
}

TEST(Strings, FormatsBytesWithAUnit) {
  EXPECT_EQ(format_bytes(512), "512 B");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(int64_t{4} << 30), "4.0 GiB");
}

TEST(Strings, ValidatesUtf8) {
  EXPECT_TRUE(is_valid_utf8(""));
  EXPECT_TRUE(is_valid_utf8("aé€😀"));
  EXPECT_FALSE(is_valid_utf8("\xff"));
  EXPECT_FALSE(is_valid_utf8("\xc0\xaf")) << "overlong";
  EXPECT_FALSE(is_valid_utf8("\xe0\x80\xaf")) << "overlong";
  EXPECT_FALSE(is_valid_utf8("\xed\xa0\x80")) << "surrogate";
  EXPECT_FALSE(is_valid_utf8("\xf4\x90\x80\x80")) << "above U+10FFFF";
  EXPECT_FALSE(is_valid_utf8("\xe2\x82")) << "truncated";
  EXPECT_FALSE(is_valid_utf8("a\x80")) << "alone";
}

TEST(Strings, ComparesSecretsByContent) {
  EXPECT_TRUE(equal_constant_time("secret", "secret"));
  EXPECT_FALSE(equal_constant_time("secret", "secreT"));
  EXPECT_FALSE(equal_constant_time("secret", "secret "));
  EXPECT_TRUE(equal_constant_time("", ""));
}

}  // namespace
}  // namespace quire
