#include "cli/top/view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/chat/styled_text.h"
#include "cli/top/screen.h"

namespace quire::cli {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

TEST(TopView, SparklineShowsTheLatestValues) {
  EXPECT_EQ(sparkline({0, 1, 4, 8}, 10, 0.0), " ▁▄█");
  EXPECT_EQ(sparkline({100, 1, 4, 8}, 3, 0.0), "▁▄█");
  EXPECT_EQ(sparkline({0.001, 0.5, 2.0}, 3, 1.0), "▁▄█");
  EXPECT_EQ(sparkline({0, 0}, 2, 0.0), "  ");
  EXPECT_EQ(sparkline({}, 5, 0.0), "");
}

TEST(TopView, LatenciesThatAreOnlyBoundedSaySo) {
  EXPECT_EQ(latency_text({0.0123, false}), "12.3 ms");
  EXPECT_EQ(latency_text({2.5, false}), "2.50 s");
  EXPECT_EQ(latency_text({0.00001, false}), "< 0.1 ms");
  EXPECT_EQ(latency_text({0.0001, true}), "< 0.1 ms");
  EXPECT_EQ(latency_text({0.0006, true}), "< 1 ms");
  EXPECT_EQ(latency_text({0.2995, true}), "< 300 ms");
  EXPECT_EQ(latency_text({1.5, true}), "< 1.50 s");
}

ServerActivity busy() {
  ServerActivity activity;
  activity.running = 3;
  activity.waiting = 2;
  activity.kv_usage = 0.95;
  activity.generation_rate = 12.5;
  return activity;
}

TEST(TopView, LinesFitTheWidth) {
  TopHistory history;
  for (int i = 0; i < 300; ++i) history.add(busy());
  for (const int columns : {80, 200}) {
    int widest = 0;
    for (const std::string& line : server_view("model", busy(), "last minute", {columns, false}, &history))
      widest = std::max(widest, rendered_width(line));
    EXPECT_EQ(widest, columns);
  }
}

TEST(TopView, ColorsAreOptional) {
  const TopHistory history;
  const auto plain = server_view("model", busy(), "", {80, false}, &history);
  EXPECT_THAT(plain, Not(Contains(HasSubstr("\x1b"))));
  const auto colored = server_view("model", busy(), "", {80, true}, &history);
  EXPECT_THAT(colored, Contains(AllOf(HasSubstr("KV cache"), HasSubstr("\x1b[31m█"))));
}

TEST(TopView, CutsALineAtTheWidthAndEndsItsStyle) {
  EXPECT_EQ(first_columns("\x1b[1mabc\x1b[0mdef", 4), "\x1b[1mabc\x1b[0md\x1b[0m");
  EXPECT_EQ(first_columns("abc", 3), "abc");
  EXPECT_EQ(first_columns("ab", 3), "ab\x1b[K");
}

}  // namespace
}  // namespace quire::cli
