#include "ops/shared_prefix.h"

#include <gtest/gtest.h>

#include <numeric>

namespace quire {
namespace {

struct Tables {
  std::vector<int32_t> cu, lens, indptr = {0}, ids;

  explicit Tables(const std::vector<std::vector<int32_t>>& tables)
      : cu(tables.size() + 1), lens(tables.size()) {
    for (const auto& table : tables) {
      ids.insert(ids.end(), table.begin(), table.end());
      indptr.push_back(static_cast<int32_t>(ids.size()));
    }
  }
  AttentionBatch batch() const { return {static_cast<int32_t>(lens.size()), cu, lens, indptr, ids}; }
};

std::vector<int32_t> list(std::span<const int32_t> values) {
  return {values.begin(), values.end()};
}

TEST(SharedPrefixes, NeedEqualFirstBlocks) {
  SharedPrefixes shared;
  shared.find(Tables({{1, 2}, {2, 2}, {}, {}, {3}}).batch());
  EXPECT_TRUE(shared.order().empty());
  EXPECT_TRUE(shared.blocks().empty());
}

TEST(SharedPrefixes, SortSequencesByTheBlocksTheyShare) {
  SharedPrefixes shared;
  shared.find(Tables({{7, 8, 9}, {4}, {7, 1}, {7, 8, 5, 6}, {7, 8, 9}}).batch());
  EXPECT_EQ(list(shared.blocks()), (std::vector<int32_t>{0, 1, 2, 3, 0}));
  const std::vector<int32_t> order = list(shared.order());
  EXPECT_EQ(std::vector<int32_t>(order.begin(), order.begin() + 3), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(order[3] + order[4], 4) << "sequences 0 and 4 have the same blocks";
}

TEST(SharedPrefixes, DoNotDependOnThePreviousBatch) {
  SharedPrefixes shared;
  shared.find(Tables({{1, 2}, {1, 3}}).batch());
  EXPECT_EQ(list(shared.blocks()), (std::vector<int32_t>{1, 0}));
  shared.find(Tables({{1}, {2}, {3}}).batch());
  EXPECT_TRUE(shared.order().empty());
}

}  // namespace
}  // namespace quire
