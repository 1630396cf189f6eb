// The tokens of text that a constraint leaves no choice for.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "grammar/compile.h"

namespace quire::grammar {
namespace {

// Token 0 ends the output. The texts of the others, from the most preferred one.
const std::vector<std::string> kTexts = {"",  "name", "\":", "{\"", "na", "<m>", " ", "\"",
                                         "{", "}",    ":",   "e",   "m",  "n",   "a", "\n"};

// Writes a text with the first token of the list that fits, again and again.
std::vector<TokenId> encode(std::string_view text) {
  std::vector<TokenId> tokens;
  while (!text.empty()) {
    size_t token = 1;
    while (token < kTexts.size() && !text.starts_with(kTexts[token])) ++token;
    if (token == kTexts.size()) return {};
    tokens.push_back(static_cast<TokenId>(token));
    text.remove_prefix(kTexts[token].size());
  }
  return tokens;
}

std::vector<std::string> texts_of(const std::vector<TokenId>& tokens) {
  std::vector<std::string> texts;
  for (const TokenId token : tokens) texts.push_back(kTexts[static_cast<size_t>(token)]);
  return texts;
}

std::unique_ptr<ConstraintState> start(Regular expression, const TokenTable::Encoder& encoder = encode,
                                       std::vector<Symbol> before = {}) {
  Grammar grammar;
  before.push_back(add_lexeme(grammar, std::move(expression)));
  add_rule(grammar, "root");
  grammar.rules[0].alternatives = {std::move(before)};
  const auto tokens = TokenTable::from_texts(kTexts, std::vector<TokenId>{0}, encoder);
  return compile(grammar, tokens).value()->start();
}

Regular key() {
  return concat({text("{\"name\": "), any_of({text("a"), text("\"")})});
}

using Texts = std::vector<std::string>;

TEST(ForcedTokens, AreThoseOfTheTokenizerWithoutTheLast) {
  const auto state = start(key());
  EXPECT_EQ(texts_of(state->forced_tokens()), (Texts{"{\"", "name", "\":"}))
      << "the space may belong to more";
  for (const TokenId token : state->forced_tokens()) ASSERT_TRUE(state->accept(token));
  EXPECT_EQ(state->forced_bytes(), " ");
  EXPECT_TRUE(state->forced_tokens().empty());
}

TEST(ForcedTokens, ContinueAfterAnyTokenOfTheText) {
  const auto state = start(key());
  ASSERT_TRUE(state->accept(encode("{\"").front()));
  ASSERT_TRUE(state->accept(encode("na").front()));
  EXPECT_EQ(texts_of(state->forced_tokens()), (Texts{"m", "e", "\":"}));
}

TEST(ForcedTokens, AreNoneWhereThereIsAChoice) {
  EXPECT_TRUE(start(any_of({text("name\":"), text("{\"")}))->forced_tokens().empty());
  EXPECT_TRUE(start(concat({text("n"), any_of({text("a"), text("e")})}))->forced_tokens().empty());
  EXPECT_TRUE(start(key(), TokenTable::Encoder())->forced_tokens().empty()) << "no tokenizer";
}

TEST(ForcedTokens, LeaveOutTheSpaceThatATokenizerPutsBeforeItsTexts) {
  const auto with_space = [](std::string_view text) { return encode(" " + std::string(text)); };
  EXPECT_EQ(texts_of(start(key(), with_space)->forced_tokens()), (Texts{"{\"", "name", "\":"}));
}

TEST(ForcedTokens, AreNoneIfTheTokensHaveOtherBytes) {
  const auto other = [](std::string_view) { return encode("name"); };
  EXPECT_TRUE(start(key(), other)->forced_tokens().empty());
}

TEST(ForcedTokens, EndBeforeATokenThatTheGrammarNames) {
  const TokenId marker = encode("<m>").front();
  const auto state = start(text("name<m>name"), encode, {{Symbol::Kind::kToken, marker}});
  ASSERT_TRUE(state->accept(marker));
  EXPECT_EQ(texts_of(state->forced_tokens()), (Texts{"name"}));
}

}  // namespace
}  // namespace quire::grammar
