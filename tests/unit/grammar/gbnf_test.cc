// Text grammars: GBNF of llama.cpp and EBNF of xgrammar.
#include "grammar/gbnf.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "unit/grammar/support/oracle.h"

namespace quire::grammar {
namespace {

struct GbnfCase {
  std::string source;
  std::vector<std::string> accepted;
  std::vector<std::string> refused;
};

void expect_grammar(const GbnfCase& entry) {
  SCOPED_TRACE(entry.source);
  const auto grammar = parse_gbnf(entry.source);
  ASSERT_TRUE(grammar.ok()) << grammar.failure().message;
  for (const std::string& text : entry.accepted)
    EXPECT_TRUE(oracle_matches(*grammar, text)) << "accepts '" << text << "'";
  for (const std::string& text : entry.refused)
    EXPECT_FALSE(oracle_matches(*grammar, text)) << "refuses '" << text << "'";
}

std::string gbnf_refusal(const std::string& source, const GbnfOptions& options = {}) {
  const auto grammar = parse_gbnf(source, options);
  return grammar.ok() ? "accepted" : grammar.failure().message;
}

std::string text_times(const std::string& text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) result += text;
  return result;
}

std::filesystem::path shared_schemas() {
  const char* shared = std::getenv("QUIRE_SHARED");
  return std::filesystem::path(shared != nullptr ? shared : QUIRE_SOURCE_DIR "/../shared") / "data/schemas";
}

TEST(Gbnf, SupportsLiteralsClassesAndRepeats) {
  const std::vector<GbnfCase> cases = {
      {"root ::= \"a\" \"bc\"", {"abc"}, {"", "ab", "abcd"}},
      {"root ::= \"\"", {""}, {"a"}},
      {"root ::=", {""}, {"a"}},
      {"root ::= | \"a\"", {"", "a"}, {"aa"}},
      {"root ::= [a-c_-]+", {"a-", "_c"}, {"", "d"}},
      {"root ::= [^a-c]", {"d", "é", "\n"}, {"a", ""}},
      {"root ::= [ぁ-ゟ]", {"あ"}, {"ア"}},
      {"root ::= .", {"a", "é", "\n"}, {"", "ab"}},
      {"root ::= \"a\"? [b]* \"c\"+", {"c", "abbcc"}, {"ab", "aac"}},
      {"root ::= \"a\"{2} \"b\"{1,2} \"c\"{2,}", {"aabcc", "aabbccc"}, {"abcc", "aabc", "aabbbcc"}},
      {"root ::= (\"a\" | \"b\" \"c\"){0,2}", {"", "a", "bca"}, {"b", "aaa"}},
      {"root ::= \"\\x41\\u00e9\\U0001F600\\n\\t\\\\\\\"\\[\\]\"", {"Aé😀\n\t\\\"[]"}, {"A"}},
      {"root ::= [\\]\\-\\\\\\x00-\\x1F]", {"]", "-", "\\", "\n"}, {"a"}},
  };
  for (const GbnfCase& entry : cases) expect_grammar(entry);
}

TEST(Gbnf, SupportsRulesOverSeveralLines) {
  expect_grammar({R"(# a list
root ::= item
         ("," ws item)*   # more
       | "none"
item ::= (
  [0-9]+
  # a word
  | word )
word ::= [a-z] rest
rest ::= [a-z]*
ws ::= " "?
)",
                  {"1", "a,b", "12, ab,3", "none"},
                  {"", "1,", ",1", "1 ,2", "A"}});
}

TEST(Gbnf, SupportsRecursiveRules) {
  const std::vector<GbnfCase> cases = {
      {"root ::= \"(\" root \")\" | \"x\"", {"x", "((x))"}, {"(x", "()", "x)"}},
      {"root ::= root \"+\" [0-9] | [0-9]", {"1", "1+2+3"}, {"+1", "1+", ""}},
      {"root ::= a root | \"\"\na ::= \"<\" root \">\"", {"", "<>", "<<>><>"}, {"<", "><"}},
      {"root ::= pair{2,3}\npair ::= \"(\" pair* \")\"", {"()()", "(())()()"}, {"()", "()()()()"}},
      {"root ::= (\"a\" root \"b\")?", {"", "ab", "aabb"}, {"aab", "ba"}},
      {"root ::= e\ne ::= e e | \"a\"", {"a", "aaa"}, {"", "b"}},
      {"root ::= nested+ \"!\"\nnested ::= \"[\" nested* \"]\"", {"[]!", "[[]][]!"}, {"!", "[]"}},
      {"root ::= (n | \"b\") \"c\" [d]\nn ::= \"n\" n? ", {"ncd", "nncd", "bcd"}, {"ncc", "cd"}},
  };
  for (const GbnfCase& entry : cases) expect_grammar(entry);
}

// Everything without recursion is one lexeme.
TEST(Gbnf, TurnsRulesWithoutRecursionIntoLexemes) {
  const auto flat = parse_gbnf("root ::= a (\",\" a)*\na ::= b{1,3}\nb ::= [0-9] | c\nc ::= \"x\"");
  ASSERT_TRUE(flat.ok());
  EXPECT_EQ(flat->rules.size(), 1U);
  EXPECT_EQ(flat->lexemes.size(), 1U);
  // Next to a recursive rule, neighbours are one lexeme.
  const auto nested = parse_gbnf("root ::= \"(\" ws root ws \")\" | \"x\" | \"y\"\nws ::= \" \"*");
  ASSERT_TRUE(nested.ok());
  ASSERT_EQ(nested->rules.size(), 1U);
  EXPECT_EQ(nested->lexemes.size(), 3U);
  EXPECT_EQ(nested->rules[0].alternatives.size(), 2U);
}

// A repeat that needs too many states of one lexeme is made of rules.
TEST(Gbnf, LeavesLargeRepeatsToRules) {
  const auto large = parse_gbnf("root ::= (\"a\"{1,1000} \"b\"){0,1000}");
  ASSERT_TRUE(large.ok());
  EXPECT_GT(large->rules.size(), 1U);
  EXPECT_TRUE(oracle_matches(*large, "aabab"));
  EXPECT_FALSE(oracle_matches(*large, "aaba"));
}

// The right side of a rule over the rules a, b and c, which have one character each.
std::string random_body(std::mt19937& rng, int depth) {
  const auto below = [&](uint32_t limit) { return rng() % limit; };
  std::string body;
  const uint32_t alternatives = 1 + below(3) / 2;
  for (uint32_t i = 0; i <= alternatives; ++i) {
    if (i > 0) body += " | ";
    for (uint32_t items = below(4); items > 0; --items) {
      body += depth > 0 && below(3) == 0 ? "(" + random_body(rng, depth - 1) + ")"
                                         : std::string(1, static_cast<char>('a' + below(3)));
      static const std::array<const char*, 8> kRepeats = {"", "", "", "*", "+", "?", "{2}", "{1,3}"};
      body += std::string(kRepeats[below(8)]) + " ";
    }
  }
  return body;
}

// The rule `never` derives nothing, but it is recursive: what refers to it is not made a part of lexemes.
TEST(Gbnf, RulesAndLexemesDescribeTheSameTexts) {
  std::mt19937 rng(5);
  size_t accepted = 0;
  size_t refused = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string rules = "root ::= " + random_body(rng, 2) + "\n";
    SCOPED_TRACE(rules);
    const auto flat = parse_gbnf(rules + "a ::= \"a\"\nb ::= \"b\"\nc ::= \"c\"");
    const auto nested =
        parse_gbnf(rules + "a ::= \"a\" | never\nb ::= \"b\" | never\nc ::= \"c\"\nnever ::= never \"x\"");
    ASSERT_TRUE(flat.ok() && nested.ok());
    EXPECT_EQ(flat->lexemes.size(), 1U);
    for (int j = 0; j < 20; ++j) {
      std::string text;
      for (uint32_t length = rng() % 6; length > 0; --length) text += static_cast<char>('a' + rng() % 3);
      const bool matches = oracle_matches(*flat, text);
      EXPECT_EQ(oracle_matches(*nested, text), matches) << text;
      ++(matches ? accepted : refused);
    }
  }
  EXPECT_GT(accepted, 400U);
  EXPECT_GT(refused, 400U);
}

TEST(Gbnf, NamesSpecialTokens) {
  GbnfOptions options;
  options.tokens.find = [](std::string_view text) {
    return text == "<think>" ? std::optional<TokenId>(7) : std::nullopt;
  };
  options.tokens.contains = [](int64_t id) { return id == 7 || id == 8; };
  const auto grammar = parse_gbnf("root ::= <think> [a-z]* <[8]>", options);
  ASSERT_TRUE(grammar.ok()) << grammar.failure().message;
  Output output = output_of("?ab?");
  output.front() = kFirstToken + 7;
  output.back() = kFirstToken + 8;
  EXPECT_TRUE(oracle_matches(*grammar, output));
  output.back() = kFirstToken + 7;
  EXPECT_FALSE(oracle_matches(*grammar, output));
  EXPECT_FALSE(oracle_matches(*grammar, "<think>ab<[8]>"));

  EXPECT_EQ(gbnf_refusal("root ::= <x>", options), "line 1, column 10: the model has no such special token");
  EXPECT_EQ(gbnf_refusal("root ::= <[9]>", options),
            "line 1, column 10: the model has no such special token");
  EXPECT_EQ(gbnf_refusal("root ::= <[x]>", options), "line 1, column 10: a token's id is a number");
  EXPECT_EQ(gbnf_refusal("root ::= !<think>", options),
            "line 1, column 10: the complement of a token is not supported");
  EXPECT_EQ(gbnf_refusal("root ::= <think>"), "line 1, column 10: tokens are not supported here");
}

TEST(Gbnf, RefusesWithLineAndColumn) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "line 1, column 1: the rule 'root' is missing"},
      {"a ::= \"x\"\n", "line 2, column 1: the rule 'root' is missing"},
      {"root ::= a\n", "line 1, column 10: the rule 'a' is not defined"},
      {"root ::= \"é\" b\nc ::= d", "line 1, column 14: the rule 'b' is not defined"},
      {"root ::= \"a\"\n\n root ::= \"b\"", "line 3, column 2: the rule 'root' is defined twice"},
      {"root ::= \"a", "line 1, column 10: missing \""},
      {"root ::= [a", "line 1, column 10: missing ]"},
      {"root ::= [b-a]", "line 1, column 11: the first character of a range is after the last"},
      {"root ::= (\"a\"", "line 1, column 10: missing )"},
      {"root ::= \"a\")", "line 1, column 13: unmatched )"},
      {"root ::= * \"a\"", "line 1, column 10: a repeat without an operand"},
      {"root ::= \"a\"**", "line 1, column 14: a repeat of a repeat needs parentheses"},
      {"root ::= \"a\"{2,1}", "line 1, column 13: the lowest number of a repeat is above the highest"},
      {"root ::= \"a\"{,1}", "line 1, column 14: a repeat needs a number"},
      {"root ::= \"a\"{1", "line 1, column 13: missing }"},
      {"root ::= \"a\"{50001}", "line 1, column 14: a repeat has more than 50000 times"},
      {"root ::= \"\\q\"", "line 1, column 11: unknown escape \\q"},
      {"root ::= \"\\x4\"", "line 1, column 11: an escape needs 2 hexadecimal digits"},
      {"root ::= \"\\ud800\"", "line 1, column 11: an escape is not a character"},
      {"root ::= \"a\" %", "line 1, column 14: unexpected character"},
      {"root = \"a\"", "line 1, column 1: a rule starts with its name and ::="},
      {"start: \"a\"", "line 1, column 1: a rule starts with its name and ::="},
      {"root ::= \"a\" (=\"b\")", "line 1, column 14: look-ahead assertions are not supported"},
      {"root ::= TagDispatch((\"a\", b))", "line 1, column 10: TagDispatch(...) is not supported"},
      {"root[capture] ::= \"a\"", "line 1, column 5: attributes of rules are not supported"},
      {"root ::= a.b",
       "line 1, column 11: write a blank in front of . for any character; names have no dots"},
      {"root ::= \"\xFF\"", "line 1, column 11: the grammar is not valid UTF-8"},
  };
  for (const auto& [source, message] : cases) EXPECT_EQ(gbnf_refusal(source), message) << source;
}

TEST(Gbnf, BoundsTheCostOfHostileGrammars) {
  EXPECT_TRUE(parse_gbnf("root ::= ((\"a\"{1,1000}){1,1000}){1,1000}").ok());
  EXPECT_EQ(gbnf_refusal("root ::= " + std::string(30'000, '(')),
            "line 1, column 110: groups are nested more than 100 deep");
  // Rules that double what they refer to stay rules.
  std::string doubling = "root ::= r0\n";
  for (int i = 0; i < 60; ++i)
    doubling +=
        "r" + std::to_string(i) + " ::= r" + std::to_string(i + 1) + " r" + std::to_string(i + 1) + "\n";
  doubling += "r60 ::= \"a\" | \"\"";
  const auto doubled = parse_gbnf(doubling);
  ASSERT_TRUE(doubled.ok());
  EXPECT_LT(doubled->rules.size() + doubled->lexemes.size(), 100U);

  std::string chain = "root ::= r0\n";
  for (int i = 0; i < 40'000; ++i)
    chain += "r" + std::to_string(i) + " ::= \"a\" | r" + std::to_string(i + 1) + "\n";
  EXPECT_TRUE(parse_gbnf(chain + "r40000 ::= \"b\"").ok());
  EXPECT_TRUE(parse_gbnf(chain + "r40000 ::= r0").ok());

  EXPECT_EQ(gbnf_refusal("root ::= " + text_times("x{50000} ", 30) + "\nx ::= \"a\" x?"),
            "line 1, column 1: more than 100000 rules and lexemes, or 1000000 symbols");
  EXPECT_EQ(gbnf_refusal(std::string((1U << 20) + 1, ' ')),
            "line 1, column 1048577: the grammar is too long (1048577 bytes)");
  for (const std::string& source :
       {"root ::= \"" + std::string(1U << 19, 'a') + "\"", "root ::= " + text_times("\"ab\"|", 200'000),
        "root ::= " + text_times("[^\u00e9-\u00ea\u00ec] ", 80'000),
        "root ::= " + text_times("root ", 200'000),
        "root ::= " + text_times("(root? ", 100) + text_times(")*", 100), text_times("a ", 500'000)}) {
    const auto grammar = parse_gbnf(source);
    EXPECT_TRUE(grammar.ok() || grammar.failure().message.substr(0, 5) == "line ");
  }
}

TEST(Gbnf, AcceptsAndRefusesRecordedTexts) {
  const auto path = shared_schemas() / "grammar_cases.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is missing, its grammars were not read";
  std::ifstream file(path);
  size_t texts = 0;
  for (const auto& entry : nlohmann::json::parse(file)) {
    if (entry["kind"] != "gbnf") continue;
    GbnfCase recorded{entry["grammar"], entry["accept"], entry["reject"]};
    texts += recorded.accepted.size() + recorded.refused.size();
    expect_grammar(recorded);
  }
  EXPECT_EQ(texts, 71U);
}

TEST(Gbnf, ReadsTheGrammarsOfLlamaCpp) {
  const auto folder = shared_schemas() / "gbnf";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << folder << " is missing, its grammars were not read";
  const std::vector<GbnfCase> cases = {
      {"arithmetic", {"1=2\n", "a+(b*2) =3\n"}, {"1=2", "=1\n", "(a=1\n"}},
      {"c", {"", "int f(){return 1;}", "int f(int a){while(a<1){a = a+1;}}"}, {"int f(){return 1}", "f(){}"}},
      {"chess", {"1. e4 e5\n2. Nf3 Nc6\n", "1. d4 O-O\n2. exd5 Qxd5+\n"}, {"1. e4 e5\n", "e4"}},
      {"english", {"Hello, world!\nIt's [ok]"}, {"", "é", "a  b"}},
      {"japanese", {"こんにちは、世界", "テスト 一"}, {"", "a"}},
      {"json", {"{}", "{\"a\": [1,true,null]\n}", "{\"\\u00e9\":\"é\"}"}, {"[]", "{\"a\":}", "{a:1}"}},
      {"json_arr", {"[\n]", "[\n{},\n1]"}, {"{}", "[1]"}},
      {"list", {"- a\n- b c\n"}, {"- a", "a\n", "- \n"}},
  };
  for (GbnfCase entry : cases) {
    std::ifstream file(folder / (entry.source + ".gbnf"));
    ASSERT_TRUE(file.good()) << entry.source;
    std::stringstream source;
    source << file.rdbuf();
    entry.source = source.str();
    expect_grammar(entry);
  }
}

}  // namespace
}  // namespace quire::grammar
