#include "engine/stop_checker.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

std::string run(StopChecker& checker, const std::vector<std::string>& pieces,
                std::optional<std::string>& match) {
  std::string text;
  for (const auto& piece : pieces) {
    auto step = checker.append(piece, true);
    text += step.text;
    if (step.match) {
      match = step.match;
      return text;
    }
  }
  return text + checker.flush();
}

TEST(StopChecker, PassesTextThroughWithoutStops) {
  StopChecker checker(std::vector<std::string>{}, false);
  EXPECT_EQ(checker.append("abc", true).text, "abc");
  EXPECT_EQ(checker.flush(), "");
}

TEST(StopChecker, FindsAStopAcrossPieces) {
  StopChecker checker({"END"}, false);
  std::optional<std::string> match;
  EXPECT_EQ(run(checker, {"one E", "N", "D two"}, match), "one ");
  EXPECT_EQ(match, "END");
}

TEST(StopChecker, HoldsBackOnlyWhatMayBecomeAStop) {
  StopChecker checker({"xyz"}, false);
  EXPECT_EQ(checker.append("abcx", true).text, "abc");
  EXPECT_EQ(checker.append("y", true).text, "");
  EXPECT_EQ(checker.append("a", true).text, "xya");
}

TEST(StopChecker, ReleasesHeldTextAtTheEnd) {
  StopChecker checker({"xyz"}, false);
  std::optional<std::string> match;
  EXPECT_EQ(run(checker, {"ab", "xy"}, match), "abxy");
  EXPECT_FALSE(match.has_value());
}

TEST(StopChecker, PrefersTheStopThatCompletesFirst) {
  StopChecker checker({"cde", "bc"}, false);
  std::optional<std::string> match;
  EXPECT_EQ(run(checker, {"abcdef"}, match), "a");
  EXPECT_EQ(match, "bc");
}

TEST(StopChecker, PrefersTheLongestStopThatCompletesAtTheSameTime) {
  StopChecker checker({"c", "abc"}, false);
  std::optional<std::string> match;
  EXPECT_EQ(run(checker, {"xab", "c"}, match), "x");
  EXPECT_EQ(match, "abc");
}

TEST(StopChecker, KeepsTheStopIfRequested) {
  StopChecker checker({"END"}, true);
  std::optional<std::string> match;
  EXPECT_EQ(run(checker, {"one END two"}, match), "one END");
}

TEST(StopChecker, IgnoresStopsWhileDisabled) {
  StopChecker checker({"END"}, false);
  EXPECT_EQ(checker.append("END", false).text, "END");
  EXPECT_FALSE(checker.append("EN", false).match.has_value());
}

TEST(StopChecker, FindsStopsWithRepeatedPrefixes) {
  StopChecker checker({"aab"}, false);
  std::optional<std::string> match;
  EXPECT_EQ(run(checker, {"a", "a", "a", "b", "c"}, match), "a");
  EXPECT_EQ(match, "aab");
}

}  // namespace
}  // namespace quire
