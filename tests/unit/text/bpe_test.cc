// Merging of long words against the definition of byte pair encoding.
#include "text/tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "text/tokenizer/min_tree.h"
#include "text/tokenizer/scratch.h"

namespace quire::tokenizer {
namespace {

using Ids = std::vector<TokenId>;

TEST(MinTree, FindsTheFirstOfTheSmallestValues) {
  std::mt19937 random(1);
  for (const size_t n : {1, 2, 15, 16, 17, 255, 256, 257, 5000}) {
    std::vector<uint32_t> values(n);
    MinTree tree;
    tree.reset(n);
    EXPECT_EQ(tree.first().value, MinTree::kNone);
    for (size_t i = 0; i < n; ++i) tree.leaf(i) = values[i] = random() % 50;
    tree.build();
    for (int step = 0; step < 500; ++step) {
      const auto smallest = std::ranges::min_element(values);
      const auto [value, position] = tree.first();
      ASSERT_EQ(value, *smallest) << n;
      if (value == MinTree::kNone) break;
      ASSERT_EQ(position, static_cast<size_t>(smallest - values.begin())) << n;
      const size_t changed = step % 3 == 0 ? random() % n : position;
      values[changed] = random() % 4 == 0 ? random() % 50 : MinTree::kNone;
      tree.set(changed, values[changed]);
    }
  }
}

// Merges the leftmost pair with the lowest rank until there is none.
Ids merge_by_definition(const MergeTable& merges, Ids ids) {
  while (true) {
    const MergeTable::Merge* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const MergeTable::Merge* merge = merges.find(ids[i], ids[i + 1]);
      if (merge == nullptr || (best != nullptr && merge->rank >= best->rank)) continue;
      best = merge;
      at = i;
    }
    if (best == nullptr) return ids;
    ids[at] = best->merged;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

// Random merges, also with ranks that are lower than those of their parts or equal to others, as in
// vocabularies with scores.
TEST(MergeSymbols, MatchesTheDefinitionForWordsOfAnyLength) {
  std::mt19937 random(2);
  for (int table = 0; table < 200; ++table) {
    const auto letters = static_cast<TokenId>(1 + random() % 4);
    const auto tokens = static_cast<TokenId>(letters + 1 + random() % 60);
    const bool ordered = table % 2 == 0;
    MergeTable merges;
    for (TokenId merged = letters; merged < tokens; ++merged) {
      const auto left = static_cast<TokenId>(random() % static_cast<uint32_t>(merged));
      const auto right = static_cast<TokenId>(random() % static_cast<uint32_t>(merged));
      merges.add(left, right, ordered ? static_cast<uint32_t>(merged) : random() % 30, merged, false);
    }
    for (const size_t n : {1, 2, 48, 49, 50, 300, 1000}) {
      Scratch scratch;
      for (size_t i = 0; i < n; ++i)
        scratch.ids.push_back(static_cast<TokenId>(random() % static_cast<uint32_t>(letters)));
      const Ids expected = merge_by_definition(merges, scratch.ids);
      Ids out{7};
      merge_symbols(merges, scratch, out);
      out.erase(out.begin());
      ASSERT_EQ(out, expected) << "table " << table << ", " << n << " symbols";
    }
  }
}

// A long word takes seconds, in which its client may disconnect.
TEST(MergeSymbols, ChecksForCancellationAtEveryMerge) {
  MergeTable merges;
  for (TokenId token = 0; token < 3; ++token)
    merges.add(token, token, static_cast<uint32_t>(token), token + 1, false);
  constexpr size_t kSize = 4096;
  Scratch scratch;
  scratch.ids.assign(kSize, 0);
  Ids out;
  merge_symbols(merges, scratch, out);
  ASSERT_EQ(out.size(), kSize / 8);
  const size_t num_merges = kSize - out.size();
  // Once for each pair of symbols, each merge and each token.
  EXPECT_GE(scratch.num_checks, kSize - 1 + num_merges + out.size());
}

}  // namespace
}  // namespace quire::tokenizer
