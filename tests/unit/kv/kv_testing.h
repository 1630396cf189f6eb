// Helpers for tests of KvManager's tiers: small layouts, prompts, and fully computed tables.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kv/kv_manager.h"

namespace quire::test {

using Tokens = std::vector<TokenId>;

inline KvLayout layout_of(int32_t num_blocks, int32_t num_host_blocks, int32_t num_disk_blocks = 0) {
  KvLayout layout;
  layout.num_blocks = num_blocks;
  layout.num_host_blocks = num_host_blocks;
  layout.num_disk_blocks = num_disk_blocks;
  layout.block_size = 4;
  return layout;
}

inline Tokens count_to(int32_t size) {
  Tokens tokens(static_cast<size_t>(size));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

class KvTierTest : public ::testing::Test {
 protected:
  // A table with all of `tokens` computed, except those found in the prefix cache.
  TableId computed(KvManager& kv, const Tokens& tokens) {
    const TableId table = kv.open("", "");
    kv.find_prefix(table, tokens, match_);
    EXPECT_TRUE(kv.start(table, match_, static_cast<int32_t>(tokens.size()), copies_));
    kv.commit(table, tokens, static_cast<int32_t>(tokens.size()));
    kv.check_integrity();
    return table;
  }

  PrefixMatch match_;
  std::vector<BlockCopy> copies_;
};

}  // namespace quire::test
