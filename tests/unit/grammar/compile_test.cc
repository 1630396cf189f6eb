#include "grammar/compile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace quire::grammar::constraint_test {
namespace {

using State = std::unique_ptr<ConstraintState>;
using Compiled = Result<std::shared_ptr<const OutputConstraint>>;

// Token 0 is special, 1 ends the output, and the others are the bytes and some longer texts.
constexpr TokenId kMarker = 0, kEnd = 1;

std::vector<std::string> vocabulary() {
  std::vector<std::string> texts = {"", ""};
  for (int byte = 1; byte < 256; ++byte) texts.push_back(std::string(1, static_cast<char>(byte)));
  for (const char* text : {"aa", "aaa", "ab", "\",\"", "\xE2\x82", "\xAC\xE2", "]]", "<m>", "a\"", "\"a"})
    texts.emplace_back(text);
  return texts;
}

std::shared_ptr<const TokenTable> table() {
  static const auto kTable = TokenTable::from_texts(vocabulary(), std::vector<TokenId>{kEnd});
  return kTable;
}

TokenId token_of(const std::string& text) {
  const auto texts = vocabulary();
  return static_cast<TokenId>(std::ranges::find(texts, text) - texts.begin());
}

std::vector<uint32_t> mask_of(ConstraintState& state) {
  std::vector<uint32_t> mask((table()->vocab_size() + 31) / 32, ~0u);
  const Status status = state.fill(mask);
  EXPECT_TRUE(status.ok()) << status.failure().message;
  return mask;
}

// The texts of the allowed tokens; "END" and "MARKER" for the special ones.
std::set<std::string> allowed(ConstraintState& state) {
  std::set<std::string> texts;
  const auto mask = mask_of(state);
  const auto spellings = vocabulary();
  for (size_t i = 0; i < spellings.size(); ++i) {
    if (((mask[i / 32] >> (i % 32)) & 1) == 0) continue;
    texts.insert(i == kMarker ? "MARKER" : i == kEnd ? "END" : spellings[i]);
  }
  return texts;
}

bool accept_text(ConstraintState& state, const std::string& text) {
  return std::ranges::all_of(text, [&](char c) { return state.accept(token_of(std::string(1, c))); });
}

Regular byte_range(char first, char last) {
  ByteSet set;
  for (int byte = static_cast<uint8_t>(first); byte <= static_cast<uint8_t>(last); ++byte)
    set.set(static_cast<size_t>(byte));
  return bytes(set);
}

// A grammar of one lexeme.
Grammar only(Regular lexeme) {
  Grammar grammar;
  const Symbol symbol = add_lexeme(grammar, std::move(lexeme));
  add_rule(grammar, "root");
  grammar.rules[0].alternatives = {{symbol}};
  return grammar;
}

State start(const Grammar& grammar, const Limits& limits = {}) {
  Compiled compiled = compile(grammar, table(), limits);
  EXPECT_TRUE(compiled.ok()) << compiled.failure().message;
  return compiled.value()->start();
}

using Texts = std::set<std::string>;

TEST(Constraint, AllowsTokensThatBeginAValidOutput) {
  const State state = start(only(concat({text("aa"), any_of({text("b"), text("\xE2\x82\xAC")})})));
  EXPECT_EQ(allowed(*state), (Texts{"a", "aa"}));
  EXPECT_FALSE(state->accept(token_of("aaa")));
  EXPECT_FALSE(state->accept(kEnd));
  EXPECT_FALSE(state->accept(-1));
  EXPECT_FALSE(state->accept(1'000'000));
  ASSERT_TRUE(state->accept(token_of("a")));
  EXPECT_EQ(allowed(*state), (Texts{"a", "ab"}));
  EXPECT_FALSE(state->complete());
  ASSERT_TRUE(state->accept(token_of("ab")));
  EXPECT_EQ(allowed(*state), (Texts{"END"}));
  EXPECT_TRUE(state->complete());
  EXPECT_TRUE(state->finished());
}

TEST(Constraint, AllowsTokensThatDivideACharacter) {
  const State state = start(only(repeat(text("\xE2\x82\xAC"), 2, 2)));
  EXPECT_EQ(allowed(*state), (Texts{"\xE2", "\xE2\x82"}));
  ASSERT_TRUE(state->accept(token_of("\xE2\x82")));
  EXPECT_EQ(allowed(*state), (Texts{"\xAC", "\xAC\xE2"}));
  ASSERT_TRUE(state->accept(token_of("\xAC\xE2")));
  EXPECT_EQ(allowed(*state), (Texts{"\x82"}));
}

TEST(Constraint, AcceptsEndTokensAfterTheEndOnly) {
  const State state = start(only(repeat(text("a"), 1)));
  EXPECT_FALSE(state->accept(kEnd));
  ASSERT_TRUE(accept_text(*state, "aa"));
  EXPECT_TRUE(state->complete());
  EXPECT_FALSE(state->finished());
  ASSERT_TRUE(state->accept(kEnd));
  EXPECT_TRUE(state->finished());
  EXPECT_EQ(allowed(*state), (Texts{"END"}));
  EXPECT_FALSE(accept_text(*state, "a"));
  state->rollback(1);
  EXPECT_TRUE(accept_text(*state, "a"));
}

TEST(Constraint, TakesMarkersFromTheirTokensOnly) {
  Grammar grammar;
  const Symbol any = add_lexeme(grammar, repeat(any_character(), 0));
  add_rule(grammar, "root");
  grammar.rules[0].alternatives = {{any, {Symbol::Kind::kToken, kMarker}, any}};
  const State state = start(grammar);
  ASSERT_TRUE(accept_text(*state, "<m>"));
  EXPECT_FALSE(state->complete());
  EXPECT_TRUE(allowed(*state).contains("MARKER"));
  ASSERT_TRUE(state->accept(kMarker));
  EXPECT_TRUE(state->complete());
  EXPECT_FALSE(state->accept(kMarker));
  // A token with text is not text where the grammar names it.
  grammar.rules[0].alternatives = {{any, {Symbol::Kind::kToken, token_of("<m>")}}};
  const State named = start(grammar);
  ASSERT_TRUE(named->accept(token_of("<m>")));
  EXPECT_TRUE(named->finished());
}

TEST(Constraint, ReadsRecursionOnBothSidesInConstantSpace) {
  for (const bool left : {true, false}) {
    Grammar grammar;
    const Symbol item = add_lexeme(grammar, text("a")), comma = add_lexeme(grammar, text(","));
    const Symbol list = add_rule(grammar, "list");
    grammar.rules[0].alternatives = {{item}, {item, comma, list}};
    if (left) grammar.rules[0].alternatives = {{item}, {list, comma, item}};
    Limits limits;
    limits.items = 8;
    const State state = start(grammar, limits);
    for (int i = 0; i < 1'500; ++i) ASSERT_TRUE(accept_text(*state, "a,")) << i;
    ASSERT_TRUE(accept_text(*state, "a"));
    EXPECT_EQ(allowed(*state), (Texts{",", "END"}));
  }
}

TEST(Constraint, ReadsDeepNesting) {
  Grammar grammar;
  const Symbol open = add_lexeme(grammar, text("[")), close = add_lexeme(grammar, text("]"));
  const Symbol value = add_rule(grammar, "value");
  grammar.rules[0].alternatives = {{open, close}, {open, value, close}};
  State state = start(grammar);
  constexpr int kDepth = 30'000;
  for (int i = 0; i < kDepth; ++i) ASSERT_TRUE(state->accept(token_of("[")));
  for (int i = 0; i < kDepth / 2 - 1; ++i) ASSERT_TRUE(state->accept(token_of("]]")));
  EXPECT_EQ(allowed(*state), (Texts{"]", "]]"}));
  ASSERT_TRUE(state->accept(token_of("]")));
  EXPECT_EQ(allowed(*state), (Texts{"]"}));
  ASSERT_TRUE(state->accept(token_of("]")));
  EXPECT_TRUE(state->finished());
  state->rollback(kDepth);
}

TEST(Constraint, RemovesWhatDerivesNothing) {
  Grammar grammar;
  const Symbol a = add_lexeme(grammar, text("a")),
               never = add_lexeme(grammar, all_of({text("a"), text("b")}));
  const Symbol b = add_lexeme(grammar, text("b"));
  add_rule(grammar, "root");
  const Symbol endless = add_rule(grammar, "endless"), empty = add_rule(grammar, "empty");
  grammar.rules[0].alternatives = {{a, never}, {a, endless}, {b, empty, b}, {a, empty, {}, a}};
  grammar.rules[0].alternatives[3][2] = empty;
  grammar.rules[1].alternatives = {{a, endless}};
  grammar.rules[2].alternatives = {{}};
  const State state = start(grammar);
  EXPECT_EQ(allowed(*state), (Texts{"a", "b", "aa"}));
  ASSERT_TRUE(accept_text(*state, "a"));
  EXPECT_EQ(allowed(*state), (Texts{"a"}));
  grammar.start = endless.id;
  const Compiled refused = compile(grammar, table());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().kind, ErrorKind::kInvalidArgument);
}

TEST(Constraint, AllowsOnlyTheEndAfterAnEmptyOutput) {
  const State state = start(only(empty_text()));
  EXPECT_EQ(allowed(*state), (Texts{"END"}));
  EXPECT_TRUE(state->finished());
}

TEST(Constraint, FailsForTooAmbiguousGrammars) {
  // Every way to divide the letters into nested pairs is a different tree.
  Grammar grammar;
  const Symbol a = add_lexeme(grammar, text("a"));
  const Symbol word = add_rule(grammar, "word");
  grammar.rules[0].alternatives = {{word, word}, {a}, {a, word, a}};
  Limits limits;
  limits.items = 20;
  const State state = start(grammar, limits);
  std::vector<uint32_t> mask((table()->vocab_size() + 31) / 32);
  bool failed = false;
  for (int i = 0; i < 40 && !failed; ++i) {
    const Status status = state->fill(mask);
    failed = !status.ok();
    if (!failed) {
      ASSERT_TRUE(state->accept(token_of("a")));
    }
  }
  EXPECT_TRUE(failed);
}

TEST(Constraint, RefusesGrammarsBeyondTheLimits) {
  EXPECT_FALSE(compile(only(repeat(repeat(text("a"), 1, 1000), 1, 1000)), table()).ok());
  Limits limits;
  limits.rules_and_lexemes = 1;
  EXPECT_FALSE(compile(only(text("a")), table(), limits).ok());
  limits = {};
  limits.states = 10;
  EXPECT_FALSE(compile(only(text("aaaaaaaaaaaaaaa")), table(), limits).ok());
  limits = {};
  limits.memory_bytes = 1'000;
  EXPECT_FALSE(compile(only(text("aaaaaaaaaaaaaaaaaaaaa")), table(), limits).ok());
}

TEST(Constraint, RefusesUnknownSymbols) {
  Grammar grammar = only(text("a"));
  for (const Symbol symbol : {Symbol{Symbol::Kind::kLexeme, 1}, Symbol{Symbol::Kind::kRule, -1},
                              Symbol{Symbol::Kind::kToken, 1'000'000}, Symbol{Symbol::Kind::kToken, kEnd}}) {
    grammar.rules[0].alternatives = {{symbol}};
    EXPECT_FALSE(compile(grammar, table()).ok());
  }
  grammar.start = 1;
  EXPECT_FALSE(compile(grammar, table()).ok());
}

TEST(Constraint, CountsLongStrings) {
  const Regular letter = any_of({byte_range('a', 'z'), text("\\n"), text("\xE2\x82\xAC")});
  const State state = start(only(concat({text("\""), repeat(letter, 3, 10'000), text("\"")})));
  ASSERT_TRUE(accept_text(*state, "\"aa"));
  EXPECT_FALSE(allowed(*state).contains("\""));
  EXPECT_TRUE(allowed(*state).contains("a\""));
  for (int i = 0; i < 9'997; ++i) ASSERT_TRUE(state->accept(token_of("a")));
  EXPECT_TRUE(allowed(*state).contains("\xE2\x82"));
  EXPECT_TRUE(allowed(*state).contains("a\""));
  EXPECT_FALSE(allowed(*state).contains("aa"));
  ASSERT_TRUE(accept_text(*state, "z"));
  EXPECT_EQ(allowed(*state), (Texts{"\""}));
}

TEST(Constraint, NamesTheBytesThatFollowInAnyCase) {
  const State state = start(only(concat({text("{\"name\": "), byte_range('a', 'b'), optional(text("c"))})));
  EXPECT_EQ(state->forced_bytes(), "{\"name\": ");
  ASSERT_TRUE(accept_text(*state, "{\"name\": "));
  EXPECT_EQ(state->forced_bytes(), "");
  ASSERT_TRUE(accept_text(*state, "b"));
  EXPECT_EQ(state->forced_bytes(), "") << "the output may end here";
}

TEST(Constraint, AvoidsBytesThatNoTokenHas) {
  const auto tokens = TokenTable::from_texts({"", "a", "b"}, std::vector<TokenId>{0});
  const Compiled compiled = compile(only(any_of({text("ac"), text("b")})), tokens);
  const State state = compiled.value()->start();
  uint32_t mask = 0;
  ASSERT_TRUE(state->fill(std::span(&mask, 1)).ok());
  EXPECT_EQ(mask, 1u << 2);
  EXPECT_FALSE(compile(only(text("ac")), tokens).ok());
}

TEST(Constraint, ClearsTheBitsAfterTheVocabulary) {
  const State state = start(only(text("a")));
  std::vector<uint32_t> mask(100, ~0u);
  ASSERT_TRUE(state->fill(mask).ok());
  uint64_t bits = 0;
  for (const uint32_t word : mask) bits += static_cast<uint64_t>(__builtin_popcount(word));
  EXPECT_EQ(bits, 1u);
  EXPECT_FALSE(state->fill(std::span(mask).first(2)).ok());
}

TEST(Constraint, GivesThreadsTheSameMasks) {
  const Regular letter = any_of({byte_range('a', 'z'), text("\xE2\x82\xAC"), text("\"")});
  Grammar grammar = only(concat({text("\""), repeat(letter, 3, 10'000), text("\"")}));
  const auto constraint = compile(grammar, table()).value();
  std::vector<std::vector<std::vector<uint32_t>>> masks(4);
  std::vector<std::thread> threads;
  for (auto& results : masks) {
    threads.emplace_back([&] {
      const State state = constraint->start();
      for (const char c : std::string("\"aaz\"a\"\"a")) {
        results.push_back(mask_of(*state));
        EXPECT_TRUE(accept_text(*state, std::string(1, c)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& results : masks) EXPECT_EQ(results, masks[0]);
}

TEST(Constraint, LosesNothingInSmallCaches) {
  Limits limits;
  limits.memory_bytes = 70'000;
  const Regular letter = any_of({byte_range('a', 'z'), text("\xE2\x82\xAC")});
  const Grammar grammar = only(repeat(concat({letter, repeat(byte_range('0', '9'), 1, 3)}), 0));
  const auto large = compile(grammar, table()).value(), small = compile(grammar, table(), limits).value();
  const State a = large->start(), b = small->start();
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(mask_of(*a), mask_of(*b));
    const std::string next(1, i % 4 == 0 ? static_cast<char>('a' + i % 26) : '1');
    ASSERT_TRUE(accept_text(*a, next) && accept_text(*b, next));
  }
  EXPECT_LE(small->memory(), limits.memory_bytes);
}

}  // namespace
}  // namespace quire::grammar::constraint_test
