// Requests that limit their reasoning: what the engine is asked for.
#include <gtest/gtest.h>

#include "text/output/formats.h"
#include "unit/server/requests_fixture.h"

namespace quire {
namespace {

class ThinkingBudgetTest : public RequestsTest {
 protected:
  ThinkingBudgetTest() {
    options.formats.reasoning = find_reasoning_format("qwen3");
    engine.compiles = true;
  }
};

TEST_F(ThinkingBudgetTest, MakesAConstraintForEachPrompt) {
  EXPECT_EQ(chat_with("")->prompts[0].constraint, nullptr);
  EXPECT_EQ(chat_with(R"("thinking_token_budget":-1)")->prompts[0].constraint, nullptr);
  EXPECT_EQ(chat_with(R"("thinking_token_budget":null)")->prompts[0].constraint, nullptr);
  EXPECT_TRUE(engine.limits.empty());
  const auto spec = chat_with(R"("thinking_token_budget":7)");
  ASSERT_TRUE(spec.ok());
  EXPECT_NE(spec->prompts[0].constraint, nullptr);
  EXPECT_EQ(spec->sampling.thinking_token_budget, 7);
  ASSERT_EQ(engine.limits.size(), 1u);
  EXPECT_EQ(engine.limits[0].first, 7);
  EXPECT_EQ(engine.limits[0].second.start, OutputStart::kText);
  engine.prompt_end = "<think>\n";
  ASSERT_TRUE(chat_with(R"("thinking_token_budget":0)").ok());
  EXPECT_EQ(engine.limits.back().second.start, OutputStart::kReasoning);
  const auto texts = completion(R"({"prompt":["a<think>","b"],"thinking_token_budget":3})");
  ASSERT_TRUE(texts.ok());
  ASSERT_EQ(engine.limits.size(), 4u);
  EXPECT_EQ(engine.limits[2].second.start, OutputStart::kReasoning);
  EXPECT_EQ(engine.limits[3].second.start, OutputStart::kText);
}

TEST_F(ThinkingBudgetTest, CountsReasoningThatIsShownAsContent) {
  ASSERT_TRUE(chat_with(R"("thinking_token_budget":3,"reasoning_format":"none")").ok());
  ASSERT_EQ(engine.limits.size(), 1u);
  EXPECT_EQ(engine.limits[0].second.reasoning, options.formats.reasoning);
}

TEST_F(ThinkingBudgetTest, RejectsOtherValues) {
  for (const char* value : {"\"5\"", "1.5", "true", "99999999999"}) {
    const auto spec = chat_with(std::string(R"("thinking_token_budget":)") + value);
    ASSERT_FALSE(spec.ok()) << value;
    EXPECT_EQ(spec.failure().param, "thinking_token_budget");
  }
}

TEST_F(ThinkingBudgetTest, PutsReasoningBeforeTheConstrainedAnswerOfCompletions) {
  const auto spec = completion(
      R"({"prompt":["a<think>","a","<think>a</think>"],"thinking_token_budget":3,"guided_regex":"b"})");
  ASSERT_TRUE(spec.ok());
  for (const PromptInput& prompt : spec->prompts) EXPECT_NE(prompt.constraint, nullptr);
  const std::vector<StructuredOutputs> specs = engine.compiled();
  ASSERT_EQ(specs.size(), 4u) << "the answer alone, and the language of each prompt";
  EXPECT_EQ(specs[0].text, "b");
  const Json opened = Json::parse(specs[1].text)["format"]["elements"];
  EXPECT_EQ(opened[0]["type"], "sequence") << "the rest of the reasoning";
  EXPECT_EQ(opened[1], (Json{{"type", "regex"}, {"pattern", "b"}}));
  EXPECT_EQ(Json::parse(specs[2].text)["format"]["elements"][0]["type"], "optional");
  EXPECT_EQ(specs[2].field, "guided_regex");
  EXPECT_EQ(specs[3].text, "b") << "the reasoning is over";
}

TEST_F(ThinkingBudgetTest, IsZeroForAnEffortOfNone) {
  ASSERT_TRUE(chat_with(R"("reasoning_effort":"none")").ok());
  ASSERT_EQ(engine.limits.size(), 1u);
  EXPECT_EQ(engine.limits[0].first, 0);
  EXPECT_EQ(engine.last_chat().kwargs,
            (Json{{"reasoning_effort", "none"}, {"enable_thinking", false}, {"thinking", false}}));
  ASSERT_TRUE(chat_with(R"("reasoning_effort":"none","thinking_token_budget":4,
                           "chat_template_kwargs":{"thinking":true})")
                  .ok());
  EXPECT_EQ(engine.limits[1].first, 4);
  EXPECT_EQ(engine.last_chat().kwargs["thinking"], true);
  ASSERT_TRUE(chat_with(R"("reasoning_effort":"low")").ok());
  options.formats.reasoning = nullptr;
  ASSERT_TRUE(chat_with(R"("reasoning_effort":"none")").ok());
  EXPECT_EQ(engine.limits.size(), 2u);
}

}  // namespace
}  // namespace quire
