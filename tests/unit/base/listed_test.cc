#include "base/listed.h"

#include <gtest/gtest.h>

#include <vector>

namespace quire {
namespace {

TEST(Listed, NamesTheFirstAndCountsTheOthers) {
  const std::vector<std::string> names = {"a", "b", "c"};
  EXPECT_EQ(listed({}), "");
  EXPECT_EQ(listed(names), "a, b, c");
  EXPECT_EQ(listed(names, 3), "a, b, c");
  EXPECT_EQ(listed(names, 2), "a, b and 1 more");
}

}  // namespace
}  // namespace quire
