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

TEST(StopChecker, FindsAStopThatBeginsWhileDisabled) {
  StopChecker checker({"little boy"}, false);
  std::string text = checker.append("a lit", false).text;
  text += checker.append("tle", false).text;
  const StopChecker::Step step = checker.append(" boy named", true);
  EXPECT_EQ(text + step.text, "a ");
  EXPECT_EQ(step.match, "little boy");
  StopChecker included({"little boy"}, true);
  text = included.append("a little", false).text;
  EXPECT_EQ(text + included.append(" boy named", true).text, "a little boy");
}

TEST(StopChecker, FindsNoStopThatWasCompleteWhileDisabled) {
  // "ab" is within the text that is held back for the longer stop.
  StopChecker checker({"abcd", "ab"}, false);
  EXPECT_EQ(checker.append("xab", false).text, "x");
  EXPECT_EQ(checker.append("ce", true).text, "abce");
  EXPECT_EQ(checker.append("xabc", false).text, "x");
  const StopChecker::Step step = checker.append("d", true);
  EXPECT_EQ(step.text, "");
  EXPECT_EQ(step.match, "abcd");
}

TEST(StopChecker, FindsAStopOfOneCharacterInTheFirstEnabledPieceOnly) {
  StopChecker checker({"."}, false);
  EXPECT_EQ(checker.append("a.", false).text, "a.");
  EXPECT_FALSE(checker.append("", true).match.has_value());
  EXPECT_EQ(checker.append("b.c", true).text, "b");
}

TEST(StopChecker, FindsStopsWithRepeatedPrefixes) {
  StopChecker checker({"aab"}, false);
  std::optional<std::string> match;
  EXPECT_EQ(run(checker, {"a", "a", "a", "b", "c"}, match), "a");
  EXPECT_EQ(match, "aab");
}

}  // namespace
}  // namespace quire
