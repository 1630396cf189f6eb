#include "grammar/token_table.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "text/detokenizer.h"
#include "text/tokenizer/tokenizer.h"
#include "text/unicode/unicode.h"
#include "unit/text/tokenizer_test_util.h"

namespace quire::grammar::token_table_test {
namespace {

TEST(TokenTable, ListsTokensWithTheSameBytes) {
  const auto tokens = TokenTable::from_texts({"a", "ab", "a", "b", "a"}, {});
  std::set<TokenId> found;
  for (const TokenTable::Node& node : tokens->nodes()) {
    for (TokenId token = node.token; token >= 0; token = tokens->next_same(token)) found.insert(token);
  }
  EXPECT_EQ(found, (std::set<TokenId>{0, 1, 2, 3, 4}));
  EXPECT_EQ(tokens->nodes().size(), 3u);
  EXPECT_EQ(tokens->longest(), 2u);
}

TEST(TokenTable, HasATrieInPreorder) {
  const auto tokens = TokenTable::from_texts({"b", "ab", "abc", "bca", "\xFF"}, {});
  std::vector<std::string> path;
  std::set<std::string> found;
  const auto nodes = tokens->nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    path.resize(nodes[i].depth - size_t{1});
    path.push_back((path.empty() ? std::string() : path.back()) + static_cast<char>(nodes[i].byte));
    if (nodes[i].token >= 0) {
      EXPECT_EQ(tokens->bytes(nodes[i].token), path.back());
      found.insert(path.back());
    }
    const auto end = static_cast<size_t>(nodes[i].end);
    ASSERT_GT(end, i);
    for (size_t below = i + 1; below < end; ++below) EXPECT_GT(nodes[below].depth, nodes[i].depth);
    EXPECT_TRUE(end == nodes.size() || nodes[end].depth <= nodes[i].depth);
    const int32_t parent = tokens->parent(static_cast<int32_t>(i));
    EXPECT_EQ(parent < 0 ? 0 : nodes[static_cast<size_t>(parent)].depth, nodes[i].depth - 1);
  }
  EXPECT_EQ(found.size(), 5u);
}

TEST(TokenTable, GivesEndTokensNoBytes) {
  const std::vector<TokenId> ends = {1, 7, 1, -1};
  const auto tokens = TokenTable::from_texts({"a", "<end>"}, ends);
  EXPECT_EQ(tokens->bytes(1), "");
  EXPECT_EQ(tokens->end_tokens().size(), 1u);
  EXPECT_TRUE(tokens->is_end(1));
  EXPECT_EQ(tokens->bytes(5), "");
}

// After a prompt, the detokenizer returns the bytes of the table.
class TokenBytes : public testing::TestWithParam<const char*> {};

TEST_P(TokenBytes, AreWhatTheDetokenizerAdds) {
  const auto tokenizer = Tokenizer::load(test::fixture_dir() / GetParam());
  const auto tokens = TokenTable::from_tokenizer(*tokenizer, tokenizer->vocab_size() + 5, {});
  EXPECT_EQ(tokens->vocab_size(), tokenizer->vocab_size() + 5);
  std::vector<TokenId> texts;
  for (TokenId id = 0; id < static_cast<TokenId>(tokens->vocab_size()); ++id) {
    EXPECT_TRUE(!tokenizer->is_special(id) || tokens->bytes(id).empty());
    if (!tokens->bytes(id).empty()) texts.push_back(id);
  }
  ASSERT_FALSE(texts.empty());
  const std::vector<TokenId> prompt = tokenizer->encode("The text before", false);
  std::mt19937 random(1);
  size_t compared = 0;
  for (int i = 0; i < 2'000; ++i) {
    std::string expected;
    std::vector<TokenId> ids;
    for (size_t count = 1 + random() % 3; ids.size() < count;) ids.push_back(texts[random() % texts.size()]);
    for (const TokenId id : ids) expected += tokens->bytes(id);
    if (!unicode::is_valid(expected)) continue;
    ++compared;
    Detokenizer detokenizer(*tokenizer, true);
    detokenizer.seed(prompt);
    std::string text;
    for (const TokenId id : ids) text += detokenizer.push(id);
    EXPECT_EQ(text + detokenizer.flush(), expected);
  }
  EXPECT_GT(compared, 100u);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TokenBytes,
                         testing::Values("byte-level", "llama2", "metaspace", "sp-bpe", "sp-unigram-bytes",
                                         "tekken"));

}  // namespace
}  // namespace quire::grammar::token_table_test
