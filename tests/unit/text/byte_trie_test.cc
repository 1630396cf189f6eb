#include "text/tokenizer/byte_trie.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

#include "support/eventually.h"

namespace quire::tokenizer {
namespace {

using Keys = std::vector<std::pair<std::string_view, int32_t>>;

int32_t value_of(const ByteTrie& trie, std::string_view key) {
  ByteTrie::Node node = ByteTrie::kRoot;
  return trie.walk(node, key) ? trie.value(node) : ByteTrie::kNoValue;
}

TEST(ByteTrie, FindsTheKeysAndNoOthers) {
  std::mt19937 rng(7);
  std::map<std::string, int32_t> expected;
  for (int32_t i = 0; i < 3000; ++i) {
    std::string key(1 + rng() % 6, ' ');
    for (char& c : key) c = static_cast<char>(rng() % 3 == 0 ? rng() % 256 : 'a' + rng() % 4);
    expected.emplace(key, i);
  }
  Keys keys(expected.begin(), expected.end());
  ByteTrie trie;
  trie.build(keys);
  for (const auto& [key, value] : expected) EXPECT_EQ(value_of(trie, key), value);
  for (int i = 0; i < 3000; ++i) {
    std::string key(1 + rng() % 6, ' ');
    for (char& c : key) c = static_cast<char>('a' + rng() % 6);
    const auto found = expected.find(key);
    EXPECT_EQ(value_of(trie, key), found == expected.end() ? ByteTrie::kNoValue : found->second);
  }
}

TEST(ByteTrie, UsesTheLastOfEqualKeys) {
  Keys keys = {{"a", 1}, {"", 9}, {"a", 2}};
  ByteTrie trie;
  trie.build(keys);
  EXPECT_EQ(value_of(trie, "a"), 2);
}

TEST(ByteTrie, TheTimeToBuildIsLinearInTheLengthOfAKey) {
  std::string key;
  while (key.size() < 3'000'000) key += "aA1 ";
  Keys keys = {{key, 0}};
  ByteTrie trie;
  test::expect_end("building a trie for a long key", [&] { trie.build(keys); });
  EXPECT_EQ(value_of(trie, key), 0);
}

}  // namespace
}  // namespace quire::tokenizer
