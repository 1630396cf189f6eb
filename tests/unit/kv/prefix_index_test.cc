#include "kv/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "kv/block_hash.h"

namespace quire {
namespace {

using Tokens = std::vector<TokenId>;

TEST(BlockHash, DependsOnParentTokensSeedAndRoot) {
  const BlockHasher hasher(1);
  const Tokens tokens = {1, 2, 3, 4};
  const Tokens others = {1, 2, 3, 5};
  const BlockHash root = hasher.root("", "");
  const BlockHash first = hasher.block(root, tokens);
  EXPECT_EQ(first, hasher.block(root, tokens));
  EXPECT_FALSE(first == hasher.block(root, others));
  EXPECT_FALSE(first == hasher.block(first, tokens));
  EXPECT_FALSE(root == hasher.root("other", ""));
  EXPECT_FALSE(root == hasher.root("", "tenant"));
  EXPECT_FALSE(first == BlockHasher(2).block(root, tokens));
}

TEST(BlockHash, HashesAllTokensOfLongBlocks) {
  const BlockHasher hasher(1);
  Tokens tokens(300, 7);
  const BlockHash before = hasher.block({}, tokens);
  tokens.back() = 8;
  EXPECT_FALSE(before == hasher.block({}, tokens));
}

TEST(BlockHash, KeepsTheRequestedNumberOfBits) {
  const BlockHasher hasher(1, 4);
  for (TokenId token = 0; token < 100; ++token) {
    const BlockHash hash = hasher.block({}, Tokens{token});
    EXPECT_LT(hash.low, 16U);
    EXPECT_EQ(hash.high, 0U);
  }
}

TEST(PrefixIndex, FindsInsertedBlocksUntilTheyAreRemoved) {
  PrefixIndex index(8, 2);
  const Tokens tokens = {5, 6};
  const PrefixIndex::Key key{{1, 2}, {3, 4}, 0, tokens};
  EXPECT_EQ(index.find(key), -1);
  EXPECT_TRUE(index.insert(3, key));
  EXPECT_TRUE(index.contains(3));
  EXPECT_EQ(index.find(key), 3);
  index.remove(3);
  EXPECT_EQ(index.find(key), -1);
  EXPECT_FALSE(index.contains(3));
  index.check_integrity();
}

TEST(PrefixIndex, ComparesTokensParentAndGroupOfEqualHashes) {
  PrefixIndex index(8, 2);
  const Tokens tokens = {5, 6};
  const Tokens others = {5, 7};
  ASSERT_TRUE(index.insert(3, {{1, 2}, {3, 4}, 0, tokens}));
  EXPECT_EQ(index.find({{1, 2}, {3, 4}, 0, others}), -1) << "other tokens";
  EXPECT_EQ(index.find({{1, 2}, {3, 5}, 0, tokens}), -1) << "another parent";
  EXPECT_EQ(index.find({{1, 2}, {3, 4}, 1, tokens}), -1) << "another group";
  EXPECT_FALSE(index.insert(4, {{1, 2}, {3, 4}, 0, others})) << "other content has this hash";
  EXPECT_FALSE(index.contains(4));
  EXPECT_EQ(index.find({{1, 2}, {3, 4}, 0, tokens}), 3);
  index.check_integrity();
}

TEST(PrefixIndex, KeepsBlocksOfTheSameContentApart) {
  PrefixIndex index(8, 1);
  const Tokens tokens = {5};
  const PrefixIndex::Key key{{1, 2}, {3, 4}, 0, tokens};
  for (const BlockId block : {1, 2, 3}) EXPECT_TRUE(index.insert(block, key));
  EXPECT_EQ(index.num_inserted(), 3);
  for (const BlockId gone : {2, 1}) {
    index.remove(gone);
    index.check_integrity();
    EXPECT_EQ(index.find(key) == gone, false);
    EXPECT_GE(index.find(key), 0);
  }
  index.remove(3);
  EXPECT_EQ(index.find(key), -1);
}

TEST(PrefixIndex, AgreesWithAMapUnderRandomUse) {
  constexpr int32_t kBlocks = 64;
  PrefixIndex index(kBlocks, 1);
  std::mt19937 random(5);
  std::vector<int32_t> number_of(kBlocks,
                                 -1);  // what each inserted block's hash is made from; -1 = not inserted
  const auto key_of = [](int32_t number, const Tokens& tokens) {
    // Many keys share a home slot.
    return PrefixIndex::Key{
        {static_cast<uint64_t>(number % 7), static_cast<uint64_t>(number)}, {}, number % 2, tokens};
  };
  for (int i = 0; i < 20000; ++i) {
    const BlockId block = static_cast<BlockId>(random() % kBlocks);
    const int32_t number = static_cast<int32_t>(random() % 40);
    if (number_of[static_cast<size_t>(block)] >= 0) {
      index.remove(block);
      number_of[static_cast<size_t>(block)] = -1;
    } else {
      ASSERT_TRUE(index.insert(block, key_of(number, {number})));
      number_of[static_cast<size_t>(block)] = number;
    }
    const int32_t wanted = static_cast<int32_t>(random() % 40);
    const BlockId found = index.find(key_of(wanted, {wanted}));
    const bool inserted = std::find(number_of.begin(), number_of.end(), wanted) != number_of.end();
    ASSERT_EQ(found >= 0, inserted);
    if (inserted) {
      ASSERT_EQ(number_of[static_cast<size_t>(found)], wanted);
    }
    if (i % 100 == 0) index.check_integrity();
  }
}

}  // namespace
}  // namespace quire
