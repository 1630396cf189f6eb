// Limits on reasoning for a model: which are made, and which are refused and why.
#include "engine/reasoning_limits.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "engine/constraint_compiler.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {
namespace {

class ReasoningLimitsTest : public testing::Test {
 protected:
  static constexpr int32_t kVocabSize = 4096;
  static OutputParserOptions reading(const char* format) {
    return {.reasoning = find_reasoning_format(format), .start = OutputStart::kReasoning};
  }
  static void SetUpTestSuite() {
    tokenizer_ = Tokenizer::load(std::string(QUIRE_SOURCE_DIR) + "/models/quire-tiny");
  }
  static void TearDownTestSuite() { tokenizer_.reset(); }

  static inline std::unique_ptr<Tokenizer> tokenizer_;
  ChatTemplates templates_;
};

void expect_refused(const Result<SharedConstraint>& result, const std::string& reason) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(result.failure().param, "thinking_token_budget");
  EXPECT_NE(result.failure().message.find(reason), std::string::npos) << result.failure().message;
}

TEST_F(ReasoningLimitsTest, ForceTheTokensOfTheMarker) {
  ReasoningLimits limits(tokenizer_.get(), templates_, kVocabSize);
  const auto constraint = limits.limit(0, reading("qwen3"), nullptr);
  ASSERT_TRUE(constraint.ok()) << constraint.failure().message;
  const auto state = (*constraint)->start();
  for (const TokenId token : tokenizer_->encode("</think>", false)) {
    EXPECT_FALSE(state->accept(token == 1000 ? 1001 : 1000));
    EXPECT_TRUE(state->accept(token));
  }
  EXPECT_TRUE(state->unrestricted());
}

TEST_F(ReasoningLimitsTest, RefuseModelsWithoutAMarkerThatEndsReasoning) {
  ReasoningLimits limits(tokenizer_.get(), templates_, kVocabSize);
  expect_refused(limits.limit(3, {}, nullptr), "no format of reasoning");
  expect_refused(limits.limit(3, reading("minimax_m2_append_think"), nullptr), "no format of reasoning");
  ReasoningLimits few_logits(tokenizer_.get(), templates_, 16);
  expect_refused(few_logits.limit(3, reading("qwen3"), nullptr), "cannot write '</think>'");
  ReasoningLimits none(nullptr, templates_, kVocabSize);
  expect_refused(none.limit(3, reading("qwen3"), nullptr), "needs a tokenizer");
}

TEST_F(ReasoningLimitsTest, RefuseRequestsToModelsWithoutReasoningAlsoWithAConstraint) {
  ReasoningLimits limits(tokenizer_.get(), templates_, kVocabSize);
  ConstraintCompiler constraints(tokenizer_.get(), kVocabSize, {0}, size_t{1} << 20);
  Request request;
  request.sampling.edit().thinking_token_budget = 3;
  expect_refused(limits.limit(request, constraints), "no format of reasoning");
  request.sampling.edit().structured_outputs =
      StructuredOutputs{.kind = StructuredOutputs::Kind::kRegex, .text = "a", .field = "guided_regex"};
  expect_refused(limits.limit(request, constraints), "no format of reasoning");
}

}  // namespace
}  // namespace quire
