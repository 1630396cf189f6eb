// Masks against the enumeration of all short outputs, for random grammars.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "grammar/compile.h"
#include "unit/grammar/brute_force.h"

namespace quire::grammar::random_grammars_test {
namespace {

// Token 0 is 'T' of the oracle; 1 is a special token that no grammar names; 2 ends the output.
const std::vector<std::string> kVocabulary = {"",   "",   "",    "a",   "b",   "aa",  "ab",
                                              "ba", "bb", "aab", "bab", "abb", "bbba"};
constexpr TokenId kSpecial = 0, kOther = 1, kEnd = 2, kFirstText = 3;

using State = std::unique_ptr<ConstraintState>;

uint32_t mask_of(ConstraintState& state) {
  uint32_t mask = 0;
  EXPECT_TRUE(state.fill(std::span(&mask, 1)).ok());
  return mask;
}
bool allows(uint32_t mask, TokenId token) {
  return ((mask >> token) & 1) != 0;
}

std::string spelling(TokenId token) {
  return token == kSpecial ? "T" : kVocabulary[static_cast<size_t>(token)];
}

enum class Completion { kFound, kDeadEnd, kUnknown };

// Whether some output follows: breadth first, with a random part of each level.
Completion completion_of(const ConstraintState& from) {
  constexpr size_t kWidth = 64;
  std::mt19937 random(1);
  std::vector<State> level;
  level.push_back(from.clone());
  for (int depth = 0; depth < 40; ++depth) {
    std::vector<State> next;
    for (const State& state : level) {
      if (state->complete()) return Completion::kFound;
      for (const TokenId token : {TokenId{kFirstText}, TokenId{kFirstText + 1}, kSpecial}) {
        State after = state->clone();
        if (after->accept(token)) next.push_back(std::move(after));
      }
    }
    if (next.empty()) return Completion::kDeadEnd;
    std::shuffle(next.begin(), next.end(), random);
    if (next.size() > kWidth) next.resize(kWidth);
    level = std::move(next);
  }
  return Completion::kUnknown;
}

class Checker {
 public:
  explicit Checker(const Grammar& grammar, const ShortStrings& strings)
      : strings_(strings), sentences_(strings.sentences(grammar)), prefixes_(strings.prefixes(sentences_)) {}

  bool has_sentence() const { return std::ranges::find(sentences_, true) != sentences_.end(); }

  size_t checked() const { return checked_; }
  // Tokens after which no output was found, because it is long.
  size_t unknown() const { return unknown_; }

  // All states that are reached with at most `depth` more symbols. Returns false at the first difference.
  bool check(ConstraintState& state, const std::string& text, int depth) {
    const bool valid = sentences_[ShortStrings::index_of(text)];
    if (state.complete() != valid) return fail(text, "complete");
    const uint32_t mask = mask_of(state);
    if (allows(mask, kEnd) != valid || allows(mask, kOther)) return fail(text, "special tokens");
    for (TokenId token = 0; token < static_cast<TokenId>(kVocabulary.size()); ++token) {
      if (token == kEnd || token == kOther) continue;
      const std::string after = text + spelling(token);
      const bool allowed = allows(mask, token);
      if (after.size() <= ShortStrings::kLength && prefixes_[ShortStrings::index_of(after)] && !allowed)
        return fail(after, "not allowed");
      State next = state.clone();
      if (next->accept(token) != allowed) return fail(after, "accepted against the mask");
      const Completion completion = allowed ? completion_of(*next) : Completion::kFound;
      if (completion == Completion::kDeadEnd) return fail(after, "allowed but a dead end");
      ++checked_;
      if (completion == Completion::kUnknown) ++unknown_;
      const bool one_symbol = token <= kFirstText + 1;
      if (allowed && one_symbol && depth > 0 && !check(*next, after, depth - 1)) return false;
    }
    return true;
  }

 private:
  static bool fail(const std::string& text, const char* what) {
    ADD_FAILURE() << "after \"" << text << "\": " << what;
    return false;
  }

  const ShortStrings& strings_;
  ShortStrings::Set sentences_, prefixes_;
  size_t checked_ = 0, unknown_ = 0;
};

TEST(RandomGrammars, MasksEqualEnumeration) {
  const ShortStrings strings;
  const std::vector<TokenId> ends = {kEnd};
  const auto tokens = TokenTable::from_texts(kVocabulary, ends);
  size_t compiled = 0, checked = 0, unknown = 0;
  for (uint32_t seed = 0; seed < 2'000; ++seed) {
    std::mt19937 random(seed);
    const Grammar grammar = random_grammar(random, kSpecial);
    Checker checker(grammar, strings);
    Limits limits;
    if (seed % 2 == 1) limits.unrolled_states = 0;  // every repetition is counted where that is possible
    const auto constraint = compile(grammar, tokens, limits);
    if (!constraint.ok()) {
      ASSERT_FALSE(checker.has_sentence()) << "seed " << seed << ": " << constraint.failure().message;
      continue;
    }
    ++compiled;
    const State state = constraint.value()->start();
    ASSERT_TRUE(checker.check(*state, "", 3)) << "seed " << seed;
    checked += checker.checked();
    unknown += checker.unknown();
  }
  EXPECT_LT(unknown * 100, checked);
  EXPECT_GE(compiled, 1'000u);
}

TEST(RandomGrammars, RollbackAndCloneEqualReplay) {
  const std::vector<TokenId> ends = {kEnd};
  const auto tokens = TokenTable::from_texts(kVocabulary, ends);
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    const auto constraint = compile(random_grammar(random, kSpecial), tokens);
    if (!constraint.ok()) continue;
    State state = constraint.value()->start();
    std::vector<TokenId> accepted;
    for (int step = 0; step < 60; ++step) {
      const size_t count = random() % 4 == 0 ? random() % (accepted.size() + 1) : 0;
      state->rollback(count);
      accepted.resize(accepted.size() - count);
      if (random() % 4 == 0) state = state->clone();
      State replayed = constraint.value()->start();
      for (const TokenId token : accepted) ASSERT_TRUE(replayed->accept(token));
      const uint32_t mask = mask_of(*state);
      ASSERT_EQ(mask, mask_of(*replayed)) << "seed " << seed;
      ASSERT_EQ(state->complete(), replayed->complete());
      ASSERT_NE(mask, 0u) << "seed " << seed << ": stuck";
      TokenId token = static_cast<TokenId>(random() % kVocabulary.size());
      while (!allows(mask, token)) token = (token + 1) % static_cast<TokenId>(kVocabulary.size());
      ASSERT_TRUE(state->accept(token));
      accepted.push_back(token);
    }
  }
}

Regular except(const char* bytes_to_avoid, bool with_high) {
  ByteSet set;
  for (size_t byte = 1; byte < (with_high ? 256u : 128u); ++byte) set.set(byte);
  for (const char c : std::string(bytes_to_avoid)) set.reset(static_cast<size_t>(c));
  return bytes(set);
}

// Lexemes that allow most bytes, one after another, so that the shared masks of lexemes are used.
Grammar broad_grammar(std::mt19937& random) {
  Grammar grammar;
  const auto some = [&](uint32_t below) { return static_cast<uint32_t>(random() % below); };
  const auto lexeme = [&]() -> Regular {
    const Regular part = any_of({except("\"\\", some(2) == 0), concat({text("\\"), except("x", false)})});
    const uint32_t min = some(3) * some(4), max = some(2) == 0 ? RegularNode::kUnlimited : min + 1 + some(40);
    const Regular tail = some(4) == 0 ? empty_text() : text(some(2) == 0 ? "\"" : "\":");
    switch (some(4)) {
      case 0:
        return minus(concat({text("\""), repeat(part, 0), text("\"")}),
                     any_of({text("\"ab\""), text("\"abxx\""), text("\"b\""), text("\"b:\"")}));
      case 1:
        return minus(repeat(except("", true), 0),
                     concat({repeat(except("", true), 0), text("ab"), repeat(except("", true), 0)}));
      case 2:
        return concat({text("\""), repeat(part, min, max), tail});
      default:
        return concat({repeat(part, min, max), tail});
    }
  };
  std::vector<Symbol> lexemes;
  for (int i = 0; i < 3; ++i) lexemes.push_back(add_lexeme(grammar, lexeme()));
  const Symbol root = add_rule(grammar, "root"), more = add_rule(grammar, "more");
  const auto any = [&] { return lexemes[some(3)]; };
  grammar.rules[static_cast<size_t>(more.id)].alternatives = {
      {}, {more, any()}, {Symbol{Symbol::Kind::kToken, kSpecial}}};
  grammar.rules[static_cast<size_t>(root.id)].alternatives = {{any(), more, any()}, {any(), any()}};
  return grammar;
}

TEST(RandomGrammars, MasksOfBroadLexemesEqualTheirTokens) {
  std::mt19937 random(1);
  std::vector<std::string> texts = {"", "", ""};
  for (int byte = 1; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  for (int i = 0; i < 2'000; ++i) {
    std::string text;
    for (size_t length = 1 + random() % 24; text.size() < length;) text += "ab\"\\:x\xC3\xA9"[random() % 8];
    texts.push_back(text);
  }
  const std::vector<TokenId> ends = {kEnd};
  const auto tokens = TokenTable::from_texts(texts, ends);
  for (uint32_t seed = 0; seed < 14; ++seed) {
    random.seed(seed);
    Limits limits;
    if (seed % 2 == 1) limits.unrolled_states = 0;
    const auto constraint = compile(broad_grammar(random), tokens, limits);
    ASSERT_TRUE(constraint.ok()) << constraint.failure().message;
    const State state = constraint.value()->start();
    std::vector<uint32_t> mask((texts.size() + 31) / 32);
    for (int step = 0; step < 5; ++step) {
      ASSERT_TRUE(state->fill(mask).ok());
      std::vector<TokenId> allowed;
      for (size_t i = 0; i < texts.size(); ++i) {
        const auto token = static_cast<TokenId>(i);
        // A part of the tokens in each step, to be quick.
        if ((i + static_cast<size_t>(step)) % 8 != 0) continue;
        const bool possible = ((mask[i / 32] >> (i % 32)) & 1) != 0;
        const bool accepted = state->accept(token);
        ASSERT_EQ(accepted, possible) << "seed " << seed << " step " << step << " token " << texts[i];
        if (!accepted) continue;
        state->rollback(1);
        allowed.push_back(token);
      }
      ASSERT_TRUE(std::ranges::any_of(mask, [](uint32_t word) { return word != 0; })) << "stuck";
      if (allowed.empty()) break;
      ASSERT_TRUE(state->accept(allowed[random() % allowed.size()]));
    }
  }
}

}  // namespace
}  // namespace quire::grammar::random_grammars_test
