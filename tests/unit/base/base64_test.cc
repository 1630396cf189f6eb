#include "base/base64.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(Base64, Pads) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("a"), "YQ==");
  EXPECT_EQ(base64("ab"), "YWI=");
  EXPECT_EQ(base64("user:password"), "dXNlcjpwYXNzd29yZA==");
}

}  // namespace
}  // namespace quire
