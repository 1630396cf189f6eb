// Choices: the output is one of several texts.
#include "grammar/choice.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "unit/grammar/support/oracle.h"

namespace quire::grammar {
namespace {

TEST(Choice, AcceptsExactlyTheChoices) {
  const std::vector<std::string> choices = {"yes", "no", "yesterday", "é", "ê", "no", "nothing", ""};
  const auto grammar = parse_choice(choices);
  ASSERT_TRUE(grammar.ok()) << grammar.failure().message;
  EXPECT_EQ(grammar->lexemes.size(), 1U);
  for (const std::string& choice : choices) EXPECT_TRUE(oracle_matches(*grammar, choice)) << choice;
  for (const char* other : {"ye", "yes ", "n", "noth", "e", "\xC3", "yesno"})
    EXPECT_FALSE(oracle_matches(*grammar, other)) << other;
}

TEST(Choice, AcceptsManyChoicesThatBeginEachOther) {
  std::vector<std::string> choices;
  for (size_t i = 1; i <= 300; ++i) choices.emplace_back(i, 'a');
  const auto grammar = parse_choice(choices);
  ASSERT_TRUE(grammar.ok());
  EXPECT_TRUE(oracle_matches(*grammar, std::string(300, 'a')));
  EXPECT_FALSE(oracle_matches(*grammar, std::string(301, 'a')));
  EXPECT_FALSE(oracle_matches(*grammar, ""));
}

TEST(Choice, RefusesInvalidLists) {
  EXPECT_EQ(parse_choice({}).failure().message, "the list of choices is empty");
  const std::vector<std::string> invalid = {"a", "\xFF"};
  EXPECT_EQ(parse_choice(invalid).failure().message, "choice 1 is not valid UTF-8");
  const std::vector<std::string> large(3, std::string(400'000, 'a'));
  EXPECT_EQ(parse_choice(large).failure().message, "more than 100000 choices, or 1048576 bytes in them");
}

}  // namespace
}  // namespace quire::grammar
