// Limits on reasoning, over a small vocabulary: which token can follow, and when.
#include "grammar/reasoning_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/compile.h"
#include "grammar/parse_constraint.h"

namespace quire::grammar::reasoning_budget_test {
namespace {

using State = std::unique_ptr<ConstraintState>;

// The ends of characters, the marker in parts, and two tokens of their own.
const std::vector<std::string> kTexts = {"",   "",        "a",  "b", "<",    "/think>", "</think>",
                                         "\n", "{\"a\":", "1}", " ", "\xE2", "\x82",    "\xAC"};
constexpr TokenId kEndOfText = 0, kBegin = 1, kA = 2, kB = 3, kLess = 4, kRest = 5, kEnd = 6, kFirst = 11,
                  kSecond = 12, kThird = 13;
constexpr size_t kNumTokens = 14;

std::optional<TokenId> marker_token(std::string_view text) {
  if (text == "<think>") return kBegin;
  return text == "</think>" ? std::optional<TokenId>(kEnd) : std::nullopt;
}

struct Case {
  int32_t tokens = 2;
  const char* format = "deepseek_v3";
  OutputStart start = OutputStart::kText;
  bool marker_is_token = true;
  SharedConstraint within = nullptr;
};

State start(const Case& c) {
  ReasoningBudget budget{.tokens = c.tokens};
  budget.reading.reasoning = find_reasoning_format(c.format);
  budget.reading.start = c.start;
  if (c.marker_is_token) budget.reading.token_of = marker_token;
  budget.end = c.marker_is_token ? std::vector<TokenId>{kEnd} : std::vector<TokenId>{kLess, kRest};
  budget.text_of = [](TokenId id) { return kTexts[static_cast<size_t>(id)]; };
  return limit_reasoning(std::move(budget), c.within)->start();
}

// The tokens that can follow; empty if all can.
std::vector<TokenId> next(ConstraintState& state) {
  if (state.unrestricted()) return {};
  uint32_t mask = 0;
  EXPECT_TRUE(state.fill(std::span(&mask, 1)).ok());
  std::vector<TokenId> tokens;
  for (TokenId token = 0; token < static_cast<TokenId>(kNumTokens); ++token) {
    if ((mask >> token & 1) != 0) tokens.push_back(token);
  }
  return tokens;
}

void push(ConstraintState& state, const std::vector<TokenId>& tokens) {
  for (const TokenId token : tokens) ASSERT_TRUE(state.accept(token)) << token;
}

TEST(ReasoningBudget, ForcesTheEndAfterItsTokens) {
  const State state = start({});
  EXPECT_TRUE(next(*state).empty());
  push(*state, {kBegin, kA});
  EXPECT_TRUE(next(*state).empty());
  push(*state, {kB});
  EXPECT_EQ(next(*state), std::vector<TokenId>{kEnd});
  EXPECT_FALSE(state->accept(kA));
  EXPECT_FALSE(state->complete());
  push(*state, {kEnd});
  EXPECT_TRUE(next(*state).empty());
  push(*state, {kA, kA, kA, kA});
  EXPECT_TRUE(next(*state).empty());
}

TEST(ReasoningBudget, EndsReasoningAtOnceIfItIsZero) {
  const State opened = start({.tokens = 0, .start = OutputStart::kReasoning});
  EXPECT_EQ(next(*opened), std::vector<TokenId>{kEnd});
  const State closed = start({.tokens = 0});
  EXPECT_TRUE(next(*closed).empty());
  push(*closed, {kBegin});
  EXPECT_EQ(next(*closed), std::vector<TokenId>{kEnd});
}

TEST(ReasoningBudget, DoesNotConcernReasoningThatEndsByItself) {
  const State state = start({.start = OutputStart::kReasoning});
  push(*state, {kA, kEnd, kA, kA, kA});
  EXPECT_TRUE(next(*state).empty());
}

TEST(ReasoningBudget, IsThatOfAllReasoningOfAnOutput) {
  const State state = start({.tokens = 3, .format = "mistral", .marker_is_token = true});
  push(*state, {kBegin, kA, kA, kEnd, kB, kBegin, kA});
  EXPECT_EQ(next(*state), std::vector<TokenId>{kEnd});
  push(*state, {kEnd, kB, kBegin});
  EXPECT_EQ(next(*state), std::vector<TokenId>{kEnd});
}

TEST(ReasoningBudget, ForcesMarkersOfSeveralTokens) {
  const Case c{.start = OutputStart::kReasoning, .marker_is_token = false};
  const State state = start(c);
  push(*state, {kA, kB});
  EXPECT_EQ(next(*state), std::vector<TokenId>{kLess});
  push(*state, {kLess});
  EXPECT_EQ(next(*state), std::vector<TokenId>{kRest});
  push(*state, {kRest});
  EXPECT_TRUE(next(*state).empty());
  // The model has begun to write it.
  const State begun = start(c);
  push(*begun, {kA, kLess});
  EXPECT_EQ(next(*begun), std::vector<TokenId>{kRest});
}

TEST(ReasoningBudget, LetsACharacterBeCompleted) {
  const State state = start({.tokens = 1, .start = OutputStart::kReasoning});
  push(*state, {kFirst});
  EXPECT_TRUE(next(*state).empty());
  push(*state, {kSecond});
  EXPECT_TRUE(next(*state).empty());
  push(*state, {kThird});
  EXPECT_EQ(next(*state), std::vector<TokenId>{kEnd});
  const State never = start({.tokens = 1, .start = OutputStart::kReasoning});
  push(*never, {kFirst, kFirst, kFirst, kFirst});
  EXPECT_EQ(next(*never), std::vector<TokenId>{kEnd});
}

TEST(ReasoningBudget, ClonesAndRollsBack) {
  const State state = start({});
  push(*state, {kBegin, kA});
  const State other = state->clone();
  push(*state, {kB});
  EXPECT_TRUE(next(*other).empty());
  EXPECT_EQ(next(*state->clone()), std::vector<TokenId>{kEnd});
  push(*state, {kEnd, kA});
  state->rollback(2);
  EXPECT_EQ(next(*state), std::vector<TokenId>{kEnd});
  state->rollback(1);
  EXPECT_TRUE(next(*state).empty());
  push(*state, {kB});
  EXPECT_EQ(next(*state), std::vector<TokenId>{kEnd});
  push(*other, {kEnd, kA, kA});
  EXPECT_TRUE(next(*other).empty());
}

// Reasoning and then an answer, which is JSON.
SharedConstraint reasoning_and_json() {
  const StructuredOutputs spec{.kind = StructuredOutputs::Kind::kStructuralTag,
                               .text = R"({"type":"structural_tag","format":{"type":"sequence","elements":[
      {"type":"tag","begin":"","content":{"type":"any_text"},"end":{"type":"token","token":"</think>"}},
      {"type":"const_string","value":"{\"a\":1}"}]}})"};
  SpecialTokens tokens;
  tokens.find = marker_token;
  tokens.contains = [](int64_t id) { return id == kEnd; };
  auto texts = kTexts;
  const std::vector<TokenId> ends = {kEndOfText};
  const auto grammar = parse_constraint(spec, tokens);
  EXPECT_TRUE(grammar.ok()) << grammar.failure().message;
  const auto compiled = compile(*grammar, TokenTable::from_texts(texts, ends));
  EXPECT_TRUE(compiled.ok()) << compiled.failure().message;
  return *compiled;
}

TEST(ReasoningBudget, PrecedesAConstrainedAnswer) {
  const State state = start({.start = OutputStart::kReasoning, .within = reasoning_and_json()});
  push(*state, {kA});
  EXPECT_GT(next(*state).size(), 1u);
  push(*state, {kA});
  EXPECT_EQ(next(*state), std::vector<TokenId>{kEnd});
  EXPECT_FALSE(state->accept(kA));
  push(*state, {kEnd});
  EXPECT_EQ(next(*state), std::vector<TokenId>{8});
  push(*state, {8, 9});
  EXPECT_TRUE(state->finished());
  EXPECT_EQ(next(*state), std::vector<TokenId>{kEndOfText});
  state->rollback(3);
  EXPECT_EQ(next(*state), std::vector<TokenId>{kEnd});
}

TEST(ReasoningBudget, WaitsForTheConstraint) {
  const State state = start({.tokens = 1, .start = OutputStart::kReasoning, .within = reasoning_and_json()});
  push(*state, {kFirst});
  EXPECT_EQ(next(*state), (std::vector<TokenId>{kSecond, kThird}));
  push(*state, {kSecond, kThird});
  EXPECT_EQ(next(*state), std::vector<TokenId>{kEnd});
}

TEST(ReasoningBudget, EndsMessagesOfTheAnalysisChannel) {
  ReasoningBudget budget{.tokens = 1};
  budget.reading.calls = find_call_format("harmony");
  budget.reading.reasoning = find_reasoning_format("harmony");
  budget.reading.token_of = [](std::string_view text) -> std::optional<TokenId> {
    const std::vector<std::string_view> names = {"<|channel|>", "<|message|>", "<|end|>", "<|start|>"};
    const auto found = std::ranges::find(names, text);
    return found == names.end() ? std::nullopt : std::optional(static_cast<TokenId>(found - names.begin()));
  };
  budget.end = {2};
  const std::vector<std::string> texts = {"", "", "", "", "analysis", "final", "a", "assistant"};
  budget.text_of = [&](TokenId id) { return texts[static_cast<size_t>(id)]; };
  const State state = limit_reasoning(std::move(budget), nullptr)->start();
  push(*state, {0, 4, 1, 6});
  EXPECT_EQ(next(*state), std::vector<TokenId>{2});
  push(*state, {2, 3, 7, 0, 5, 1, 6, 6, 6});
  EXPECT_TRUE(next(*state).empty());
}

}  // namespace
}  // namespace quire::grammar::reasoning_budget_test
