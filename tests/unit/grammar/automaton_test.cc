#include "grammar/automaton.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace quire::grammar::automaton_test {
namespace {

Regular byte_between(char first, char last) {
  ByteSet set;
  for (int byte = static_cast<uint8_t>(first); byte <= static_cast<uint8_t>(last); ++byte)
    set.set(static_cast<size_t>(byte));
  return bytes(set);
}

Result<Automaton> build(const Regular& regular, const Limits& limits = {}) {
  Budget budget(limits);
  Expressions expressions(budget);
  return build_automaton(expressions, expressions.add(regular), budget);
}

bool accepts(const Automaton& automaton, std::string_view text) {
  int32_t state = automaton.start();
  uint32_t count = 0;
  for (const char c : text) {
    if (state == Automaton::kDead) return false;
    state = automaton.advance(state, static_cast<uint8_t>(c), &count);
  }
  return state != Automaton::kDead && automaton.accepts(state, count);
}

TEST(Automaton, AcceptsUnionsRepeatsAndOptionalParts) {
  const Automaton automaton = build(concat({optional(text("-")), repeat(byte_between('0', '9'), 1, 3),
                                            any_of({text("a"), text("bc")})}))
                                  .value();
  for (const char* good : {"1a", "-12bc", "123a"}) EXPECT_TRUE(accepts(automaton, good)) << good;
  for (const char* bad : {"", "-", "a", "1", "1234a", "1b", "1ac"})
    EXPECT_FALSE(accepts(automaton, bad)) << bad;
}

TEST(Automaton, AcceptsIntersectionsAndComplements) {
  const Regular words = repeat(byte_between('a', 'c'), 0);
  const Automaton automaton =
      build(all_of({words, complement(concat({words, text("ab"), words})), complement(text("cc"))})).value();
  for (const char* good : {"", "ba", "acb", "ccc"}) EXPECT_TRUE(accepts(automaton, good)) << good;
  for (const char* bad : {"ab", "cabc", "cc", "d"}) EXPECT_FALSE(accepts(automaton, bad)) << bad;
}

TEST(Automaton, HasNoStateFromWhichNothingIsAccepted) {
  // After "a", the second part has to end with both "x" and "y".
  const Regular any = complement(nothing());
  const Regular both = all_of({concat({any, text("x")}), concat({any, text("y")})});
  const Automaton automaton = build(any_of({concat({text("a"), both}), text("b")})).value();
  EXPECT_EQ(automaton.next(automaton.start(), 'a'), Automaton::kDead);
  EXPECT_NE(automaton.next(automaton.start(), 'b'), Automaton::kDead);
  EXPECT_EQ(build(both).value().start(), Automaton::kDead);
}

TEST(Automaton, AcceptsCharactersAsUtf8) {
  const Automaton automaton = build(any_character()).value();
  for (const char* good : {"a", "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"})
    EXPECT_TRUE(accepts(automaton, good));
  for (const char* bad : {"\xC3", "\x80", "\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "ab"})
    EXPECT_FALSE(accepts(automaton, bad));
}

TEST(Automaton, RefusesLanguagesBeyondTheLimits) {
  Limits limits;
  limits.steps = 2'000'000;
  const Regular bomb = repeat(repeat(text("a"), 1, 1000), 1, 1000);
  EXPECT_FALSE(build(bomb, limits).ok());
  limits.states_of_lexeme = 1'000;
  const Regular any = byte_between('a', 'b');
  const Regular blow_up = concat({repeat(any, 0), text("a"), repeat(any, 10, 10)});
  EXPECT_FALSE(build(blow_up, limits).ok());
  EXPECT_TRUE(build(blow_up).ok());
}

TEST(Automaton, RefusesDeepNesting) {
  Regular nested = text("a");
  for (int i = 0; i < 2'000; ++i) nested = complement(concat({nested, text("b")}));
  EXPECT_FALSE(build(nested).ok());
}

TEST(Automaton, CountsRepetitionsWithoutUnrollingThem) {
  Budget budget{Limits{}};
  Expressions expressions(budget);
  const Regular quote = text("\"");
  CountedExpression counted;
  counted.head = counted.tail = expressions.add(quote);
  counted.part = expressions.add(any_of({byte_between('a', 'z'), text("\\n")}));
  counted.min = 2;
  counted.max = 4;
  const Automaton automaton = build_counted_automaton(expressions, counted, budget).value();
  EXPECT_LE(automaton.num_states(), 4u);
  for (const char* good : {"\"ab\"", "\"a\\nb\"", "\"abcd\"", "\"\\n\\n\\n\\n\""})
    EXPECT_TRUE(accepts(automaton, good)) << good;
  for (const char* bad : {"\"\"", "\"a\"", "\"abcde\"", "\"abcd\\", "\"ab", "ab", "\"abcd\\n"})
    EXPECT_FALSE(accepts(automaton, bad)) << bad;
  counted.part = expressions.add(any_of({text("a"), text("ab")}));
  EXPECT_EQ(build_counted_automaton(expressions, counted, budget).value().num_states(), 0u);
}

TEST(Languages, AnswerQuestionsOfFrontEnds) {
  const Regular letters = repeat(byte_between('a', 'b'), 1, 2);
  EXPECT_TRUE(is_empty(minus(text("ab"), letters)).value());
  EXPECT_FALSE(is_empty(minus(letters, text("ab"))).value());
  EXPECT_TRUE(have_common_string(letters, text("ba")).value());
  EXPECT_FALSE(have_common_string(letters, text("bab")).value());
  EXPECT_TRUE(matches(letters, "ab").value());
  EXPECT_FALSE(matches(letters, "abc").value());
  const std::vector<std::string> all = {"a", "b", "aa", "ab", "ba", "bb"};
  EXPECT_EQ(enumerate(letters, 6).value(), all);
  EXPECT_EQ(enumerate(letters, 5).value(), std::nullopt);
  EXPECT_EQ(enumerate(repeat(text("a"), 0), 1000).value(), std::nullopt);
  EXPECT_EQ(enumerate(nothing(), 5).value(), std::vector<std::string>());
}

}  // namespace
}  // namespace quire::grammar::automaton_test
