#include "text/tokenizer/byte_trie.h"

#include <gtest/gtest.h>

#include <ctime>
#include <map>
#include <random>
#include <string>

namespace quire::tokenizer {
namespace {

using Keys = std::vector<std::pair<std::string_view, int32_t>>;

int32_t value_of(const ByteTrie& trie, std::string_view key) {
  ByteTrie::Node node = ByteTrie::kRoot;
  return trie.walk(node, key) ? trie.value(node) : ByteTrie::kNoValue;
}

double build_seconds(size_t length) {
  std::string key;
  while (key.size() < length) key += "aA1 ";
  Keys keys = {{key, 0}};
  const std::clock_t begin = std::clock();
  ByteTrie().build(keys);
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
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
  build_seconds(50'000);  // memory and caches
  const double one = build_seconds(50'000);
  EXPECT_LT(build_seconds(800'000), 64 * one + 0.05);
}

}  // namespace
}  // namespace quire::tokenizer
