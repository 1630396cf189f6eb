#include "engine/adapter_requests.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(AdapterRequests, NamesAdaptersWithRequestsThatWaitOrRun) {
  AdapterRequests requests;
  EXPECT_TRUE(requests.take_change());
  requests.arrived("sql");
  requests.arrived("chat");
  requests.arrived("");
  EXPECT_TRUE(requests.take_change());
  EXPECT_EQ(requests.waiting(), "chat,sql");
  EXPECT_EQ(requests.running(), "");
  requests.arrived("sql");
  EXPECT_FALSE(requests.take_change());
  requests.started("sql");
  requests.started("");
  EXPECT_TRUE(requests.take_change());
  EXPECT_EQ(requests.waiting(), "chat,sql");
  EXPECT_EQ(requests.running(), "sql");
  requests.ended("chat", false);
  requests.started("sql");
  EXPECT_EQ(requests.waiting(), "");
  requests.ended("sql", true);
  requests.ended("sql", true);
  requests.ended("", true);
  EXPECT_TRUE(requests.take_change());
  EXPECT_EQ(requests.running(), "");
}

}  // namespace
}  // namespace quire
