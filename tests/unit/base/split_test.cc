#include "base/split.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(SplitText, DividesAtAnySeparatorWithoutEmptyParts) {
  const std::vector<std::string> parts = {"top_k", "min_p", "temp"};
  EXPECT_EQ(split_text(";top_k,min_p;;temp,", ";,"), parts);
  EXPECT_TRUE(split_text("", ";").empty());
  EXPECT_TRUE(split_text(";", ";").empty());
}

}  // namespace
}  // namespace quire
