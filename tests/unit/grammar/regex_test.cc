// Regular expressions: the language of each pattern, what is refused, and the cost of hostile patterns.
#include "grammar/regex.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/grammar/support/oracle.h"

namespace quire::grammar {
namespace {

using Dialect = RegexOptions::Dialect;

struct RegexCase {
  std::string pattern;
  std::vector<std::string> accepted;
  std::vector<std::string> refused;
};

void expect_language(const RegexCase& entry, const RegexOptions& options) {
  SCOPED_TRACE(entry.pattern);
  const auto language = parse_regex(entry.pattern, options);
  ASSERT_TRUE(language.ok()) << language.failure().message;
  for (const std::string& text : entry.accepted)
    EXPECT_TRUE(oracle_matches(*language, text)) << "accepts '" << text << "'";
  for (const std::string& text : entry.refused)
    EXPECT_FALSE(oracle_matches(*language, text)) << "refuses '" << text << "'";
}

void expect_languages(const std::vector<RegexCase>& patterns, const RegexOptions& options = {}) {
  for (const RegexCase& entry : patterns) expect_language(entry, options);
}

std::string regex_refusal(const std::string& pattern, const RegexOptions& options = {}) {
  const auto language = parse_regex(pattern, options);
  return language.ok() ? "accepted" : language.failure().message;
}

const RegexOptions kPython{.dialect = Dialect::kPython, .encode = {}, .limits = {}};
const RegexOptions kSearch{.search = true, .encode = {}, .limits = {}};

TEST(Regex, MatchesTheWholeText) {
  expect_languages({
      {"", {""}, {"a"}},
      {"abc", {"abc"}, {"", "ab", "abcd", "xabc"}},
      {"a|bc|", {"a", "bc", ""}, {"b", "abc"}},
      {"^abc$", {"abc"}, {"ab", "abcd"}},
      {"(?:a|b)*c", {"c", "abac"}, {"ab", "ca"}},
      {"é+", {"é", "éé"}, {"e", "\xC3"}},
      {"{\"a\": [1]}", {"{\"a\": 1}"}, {"{\"a\": [1]}"}},
  });
}

TEST(Regex, SupportsQuantifiers) {
  expect_languages({
      {"a*", {"", "a", "aaaa"}, {"b"}},
      {"a+", {"a", "aaaa"}, {""}},
      {"a?b??", {"", "a", "b", "ab"}, {"ba", "aa"}},
      {"a{2}", {"aa"}, {"a", "aaa"}},
      {"a{2,}", {"aa", "aaaaa"}, {"", "a"}},
      {"a{2,3}?", {"aa", "aaa"}, {"a", "aaaa"}},
      {"(ab){0,2}", {"", "ab", "abab"}, {"a", "ababab"}},
      {"a{0}b", {"b"}, {"ab"}},
      {"x{a}", {"x{a}"}, {"xa"}},
  });
}

TEST(Regex, SupportsClassesAndEscapes) {
  expect_languages({
      {"[a-c_]+", {"abc_"}, {"", "d", "-"}},
      {"[^a-c]", {"d", "é", "\n"}, {"a", "", "\x80"}},
      {"[-a]|[b-]", {"-", "a", "b"}, {"c"}},
      {"[\\]\\\\^]", {"]", "\\", "^"}, {"["}},
      {"[ぁ-ん]", {"あ"}, {"ア", "a"}},
      {"\\d\\D", {"1a", "1٣"}, {"11", "a1", "٣a"}},
      {"\\w\\W", {"a-", "_é"}, {"aa", "éé"}},
      {"[\\s]", {" ", "\t", "\u00A0", "\uFEFF", "\u2003"}, {"a", "\u0085"}},
      {"\\S", {"a", "\u0085"}, {" ", "\u2028"}},
      {"[\\d.]+", {"1.5"}, {"a"}},
      {"\\x41\\u00e9\\u{1F600}\\uD83D\\uDE00", {"Aé😀😀"}, {"A"}},
      {"\\n\\t\\r\\f\\v\\0\\cA", {std::string("\n\t\r\f\v\0\x01", 7)}, {"n"}},
      {"\\.\\/\\-\\\"\\_", {"./-\"_"}, {"a/-\"_"}},
      {".", {"a", "é", "😀"}, {"\n", "\r", "\u2028", "", "ab"}},
      {"[]", {}, {"", "a"}},
      {"[^]", {"a", "\n"}, {""}},
      {"[\\b]", {"\b"}, {"b"}},
  });
}

TEST(Regex, SupportsGeneralCategories) {
  expect_languages({
      {"\\p{L}+", {"aéあ"}, {"1", "-"}},
      {"\\p{Lu}\\P{Lu}", {"Éé"}, {"éÉ"}},
      {"^\\p{Letter}+$", {"Straße"}, {"a1"}},
      {"\\p{gc=Nd}\\p{General_Category=Decimal_Number}", {"1٣"}, {"a1"}},
      {"[\\p{Nd}_-]+", {"1_-"}, {"a"}},
      {"[^\\p{L}]", {"1"}, {"a", "é"}},
      {"\\p{ASCII}\\p{Any}", {"aé"}, {"éa"}},
      {"\\p{White_Space}", {" ", "\u0085"}, {"a"}},
  });
  EXPECT_EQ(regex_refusal("a\\p{Script=Latin}"),
            "byte 1: this property is not supported, only general categories such as \\p{Lu} are");
  EXPECT_EQ(regex_refusal("\\p{}"),
            "byte 0: this property is not supported, only general categories such as \\p{Lu} are");
  EXPECT_EQ(regex_refusal("\\pL"), "byte 0: a property needs a name in braces, as in \\p{Lu}");
}

TEST(Regex, SupportsGroupsAndFlags) {
  expect_languages({
      {"(?<year>\\d{4})-(?P<month>\\d\\d)", {"2024-05"}, {"2024-5"}},
      {"(?i)Ab1", {"ab1", "AB1", "aB1"}, {"ab2"}},
      {"(?i:k)s", {"ks", "Ks", "\u212As"}, {"kS"}},
      {"(?i:[r-t]+)", {"sS\u017F", "RT"}, {"q"}},
      {"(?i:[^k]\\w)", {"aK", "b\u212A"}, {"ka", "Ka", "\u212Aa"}},
      {"(?s:.).", {"\na"}, {"a\n"}},
      {"(?is)A.", {"a\n"}, {"b\n"}},
      {"(?i:a(?-i:b))", {"Ab", "ab"}, {"AB"}},
      {"(?m)ab", {"ab"}, {"a"}},
  });
}

TEST(Regex, FollowsThePythonDialect) {
  expect_languages(
      {
          {"\\Aab\\Z", {"ab"}, {"ab\n"}},
          {"ab$", {"ab"}, {"ab\n"}},
          {"ab$\\s*", {"ab", "ab\n"}, {"ab ", "ab\n\n"}},
          {".", {"\r", "\u2028"}, {"\n"}},
          {"\\s", {" ", "\v"}, {"\u00A0", "\x1C"}},
          {"(?u)\\s", {" ", "\u00A0", "\x1C", "\u0085"}, {"\uFEFF"}},
          {"(?u)\\d\\w", {"٣é", "1²"}, {"a1", "1-"}},
          {"[]a]+", {"]a"}, {"b"}},
          {"[^]a]", {"b"}, {"]", "a"}},
          {"a{,2}", {"", "aa"}, {"aaa"}},
          {"a{,}", {"", "aaa"}, {"b"}},
          {"a{}", {"a{}"}, {"a"}},
          {"\\101\\07\\0", {std::string("A\a\0", 3)}, {"101"}},
          {"(?#a comment)a(?#b)*", {"", "aa"}, {"b"}},
          {"(?i)\\w[a-c]é",
           {"zBé"},
           {"\u017F"
            "aé",
            "aBÉ"}},
          {"\\U0001F600\\a", {"😀\a"}, {"a"}},
      },
      kPython);
}

TEST(Regex, SearchesInTheText) {
  expect_languages(
      {
          {"b+", {"b", "abc", "abb"}, {"", "a"}},
          {"^a", {"a", "ab"}, {"", "ba"}},
          {"a$", {"a", "ba"}, {"ab", "a\n"}},
          {"^a$", {"a"}, {"aa", "ab", "ba"}},
          {"^a|b$", {"a", "ac", "cb", "b"}, {"ca", "bc", ""}},
          {"^(?:a|b$)", {"ac", "b"}, {"bc", "cb"}},
          {"(^|,)x(,|$)", {"x", "a,x", "x,a", "a,x,b"}, {"ax", "xa", "a,xb"}},
          {"^$", {""}, {"a"}},
          {"", {"", "a"}, {}},
          {"a^b", {}, {"ab", "a", ""}},
          {"(?:^a|b)+c", {"abc", "bc", "xbbc", "ac"}, {"xac", "bac"}},
          {"(?:^a|b)*c", {"abc", "xc", "xac"}, {"ab"}},
          {"^.*@x\\.org$", {"@x.org", "a@x.org"}, {"a@xorg", "a@x.org "}},
          {"a", {"\n\n\u2028 a\n"}, {"\n"}},
      },
      kSearch);
}

TEST(Regex, TranslatesLookAheadExactly) {
  const std::vector<RegexCase> anchored = {
      {"^(?=.*\\d)(?=.*[a-z]).{3,5}$", {"a1b", "11z11"}, {"abc", "111", "a1", "a1bbbb"}},
      {"^(?!admin$).+$", {"admins", "x"}, {"admin", ""}},
      {"^(?!(?:a|b)c)[a-c]+$", {"aac", "cc"}, {"ac", "bca"}},
      {"^(?!.*--)[a-z-]+$", {"a-b-c"}, {"a--b", "--"}},
      {"^a(?=b)[bc]c$", {"abc"}, {"acc", "ab"}},
      {"^(?:a(?!b)|b)c?b?$", {"ac", "b", "bb", "acb"}, {"ab"}},
      {"^(?=a(?!b)).*$", {"a", "ac"}, {"ab", "b"}},
      {"^(?:(?=a))?b$", {"b"}, {"ab"}},
  };
  expect_languages(anchored);
  expect_languages(anchored, kSearch);
  expect_languages(
      {
          {"a(?=b)", {"ab", "xabx"}, {"a", "ac", "ba"}},
          {"a(?!b)", {"a", "aba"}, {"ab", ""}},
          {"(?!^)b", {"ab"}, {"b", "ba"}},
          {"^a*(?!^)b", {"ab"}, {"b"}},
          {"(?=a$)", {"ba"}, {"ab"}},
      },
      kSearch);
}

TEST(Regex, RefusesWithThePosition) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a(?<=b)", "byte 1: look-behind assertions are not supported"},
      {"a(?<!b)", "byte 1: look-behind assertions are not supported"},
      {"(a)\\1", "byte 3: back-references are not supported"},
      {"(?<x>a)\\k<x>", "byte 7: back-references are not supported"},
      {"(?P<x>a)(?P=x)", "byte 8: back-references are not supported"},
      {"é\\b", "byte 2: word boundaries are not supported"},
      {"\\B", "byte 0: word boundaries are not supported"},
      {"(?>a)", "byte 0: atomic groups are not supported"},
      {"(a)(?(1)b|c)", "byte 3: conditional groups are not supported"},
      {"a++", "byte 2: possessive repeats are not supported"},
      {"(?m)^a", "byte 4: ^ and $ with the flag m are not supported"},
      {"(?x: a)", "byte 2: the flag x is not supported"},
      {"a(?i)b", "byte 1: flags apply to a group, as in (?i:...), or to all at the start"},
      {"(?i)é", "byte 4: characters outside of ASCII are not supported with the flag i"},
      {"(?i)\\p{Lu}", "byte 4: properties with the flag i are not supported"},
      {"(?:(?=a)b)*", "byte 0: a repeat of anchors or look-ahead is not supported"},
      {"(?:a$)+", "byte 0: a repeat of anchors or look-ahead is not supported"},
      {"(?:^a){2}", "byte 0: a repeat of anchors or look-ahead is not supported"},
      {"(a", "byte 0: missing )"},
      {"a)", "byte 1: unmatched )"},
      {"[a", "byte 0: missing ]"},
      {"[b-a]", "byte 1: the first character of a range is after the last"},
      {"[\\w-z]", "byte 1: a range needs characters on both sides; write \\- for the character"},
      {"*a", "byte 0: a repeat without an operand"},
      {"a**", "byte 2: a repeat without an operand"},
      {"^*", "byte 1: a repeat without an operand"},
      {"(?=a)*", "byte 5: a repeat without an operand"},
      {"a{3,2}", "byte 1: the lowest number of a repeat is above the highest"},
      {"a{,2}", "byte 1: a repeat needs its lowest number, as in {0,n}; write \\{ for the character"},
      {"a{99999999999}", "byte 2: a repeat has more than 50000 times"},
      {"a\\", "byte 1: the escape \\ at the end is not complete"},
      {"\\q", "byte 0: unknown escape \\q"},
      {"\\01", "byte 0: unknown escape"},
      {"\\x4", "byte 0: an escape needs 2 hexadecimal digits"},
      {"\\uD800", "byte 0: a surrogate alone is not a character"},
      {"\\u{110000}", "byte 0: an escape is above U+10FFFF"},
      {"(?<>a)", "byte 0: a group's name is not complete"},
      {"(?<a b>a)", "byte 0: a group's name has an invalid character"},
      {"a\xFF", "byte 1: the regular expression is not valid UTF-8"},
  };
  for (const auto& [pattern, message] : cases) EXPECT_EQ(regex_refusal(pattern), message) << pattern;
  EXPECT_EQ(regex_refusal("(?ui)a", kPython), "byte 3: the flags i and u are not supported together");
  EXPECT_EQ(regex_refusal("\\777", kPython), "byte 0: an octal escape is above \\377");
  EXPECT_EQ(regex_refusal("\\u{41}", kPython), "byte 0: an escape needs 4 hexadecimal digits");
  EXPECT_EQ(regex_refusal("a(?#b", kPython), "byte 1: missing )");
}

// Characters can be written in another form, such as the escapes of a JSON string.
TEST(Regex, EncodesCharactersAsTheCallerSays) {
  RegexOptions options;
  options.search = true;
  options.encode = [](std::span<const CharacterRange> ranges) {
    const Regular plain = characters(ranges);
    bool has_quote = false;
    for (const CharacterRange& range : ranges)
      has_quote = has_quote || (range.first <= '"' && range.last >= '"');
    if (!has_quote) return plain;
    return any_of({minus(plain, text("\"")), text("\\\"")});
  };
  expect_languages({{"^a.\"?$", {"ab", "ab\\\"", "a\\\""}, {"a\"", "ab\"", "a"}}, {"b", {"\\\"b"}, {"\"b"}}},
                   options);
}

std::string repeated(const std::string& text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) result += text;
  return result;
}

TEST(Regex, BoundsTheCostOfHostilePatterns) {
  EXPECT_TRUE(parse_regex("(a{1,1000}){1,1000}").ok());
  EXPECT_EQ(regex_refusal(std::string(30'000, '(')), "byte 100: groups are nested more than 100 deep");
  EXPECT_EQ(regex_refusal(std::string(30'000, '(') + std::string(30'000, ')')),
            "byte 100: groups are nested more than 100 deep");
  EXPECT_EQ(regex_refusal(std::string((1U << 20) + 1, 'a')),
            "byte 1048576: the regular expression is too long (1048577 bytes)");
  // Of these, some are accepted and some exceed the memory; all end soon.
  const std::string open = repeated("(", 99);
  for (const std::string& pattern :
       {std::string(1U << 20, 'a'), repeated("ab|", 60'000), repeated("a?", 20'000),
        repeated("\\p{L}", 40'000), "[" + repeated("\\p{L}", 40'000) + "]", repeated("(?:^|a)", 20'000),
        repeated("(?=a)", 40'000), repeated("$", 200'000), repeated("[^\u00e9-\u00ea\u00ec]", 20'000),
        open + repeated("ab)", 99), open + std::string(200'000, 'a') + repeated("b)", 99),
        "^" + repeated("(?:", 98) + "^a" + repeated(")+", 98),
        repeated("(?!^a|", 90) + "b" + repeated(")", 90), repeated("{1", 20'000), repeated("(?<", 60'000)}) {
    const auto language = parse_regex(pattern, kSearch);
    EXPECT_TRUE(language.ok() || language.failure().message.substr(0, 5) == "byte ");
  }
}

}  // namespace
}  // namespace quire::grammar
