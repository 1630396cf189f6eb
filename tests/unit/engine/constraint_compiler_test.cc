// The compiler of constraints: cached objects, and refusals that name the field.
#include "engine/constraint_compiler.h"

#include <stop_token>
#include <thread>

#include "unit/engine/engine_testing.h"

namespace quire {
namespace {

using Kind = StructuredOutputs::Kind;

// Takes a large part of the steps that grammar/limits.h allows, and is refused.
constexpr const char* kBomb = "([a-z]{1,400}[0-9a-f]{1,400}x?){1,400}";

class ConstraintCompilerTest : public testing::Test {
 protected:
  static ConstraintCompiler compiler(size_t cache_bytes = size_t{1} << 26) {
    return {tokenizer_.get(), 4096, {0}, cache_bytes};
  }
  static StructuredOutputs regex(const std::string& pattern, const std::string& field = "guided_regex") {
    return {.kind = Kind::kRegex, .text = pattern, .field = field};
  }
  static void SetUpTestSuite() { tokenizer_ = Tokenizer::load(test::model_path("quire-tiny")); }
  static void TearDownTestSuite() { tokenizer_.reset(); }

 private:
  static inline std::unique_ptr<Tokenizer> tokenizer_;
};

TEST_F(ConstraintCompilerTest, GivesTheSameObjectForTheSameSpecification) {
  ConstraintCompiler constraints = compiler();
  const auto first = constraints.compile(regex("a+"));
  const auto again = constraints.compile(regex("a+", "structured_outputs.regex"));
  const auto other = constraints.compile(regex("b+"));
  ASSERT_TRUE(first.ok() && again.ok() && other.ok());
  EXPECT_EQ(*first, *again);
  EXPECT_NE(*first, *other);
}

TEST_F(ConstraintCompilerTest, CompilesOnceForManyThreads) {
  ConstraintCompiler constraints = compiler();
  std::vector<SharedConstraint> results(8);
  std::vector<std::thread> threads;
  for (SharedConstraint& result : results) {
    threads.emplace_back([&] { result = constraints.compile(regex("[a-z]{3,40} [0-9]+")).value(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const SharedConstraint& result : results) EXPECT_EQ(result, results[0]);
}

TEST_F(ConstraintCompilerTest, CompilesOnlyAsFarAsTheEffortGoes) {
  ConstraintCompiler constraints = compiler();
  const CompileOptions cached{.effort = CompileEffort::kCached};
  const CompileOptions quick{.effort = CompileEffort::kQuick};
  EXPECT_THROW((void)constraints.compile(regex("a+"), cached), NeedsMoreEffort);
  EXPECT_TRUE(constraints.compile(regex("a+"), quick).ok());
  EXPECT_TRUE(constraints.compile(regex("a+"), cached).ok());
  EXPECT_THROW((void)constraints.compile(regex(kBomb), quick), NeedsMoreEffort);
  EXPECT_THROW((void)constraints.compile(regex(kBomb), cached), NeedsMoreEffort);
  EXPECT_FALSE(constraints.compile(regex(kBomb)).ok());
  EXPECT_FALSE(constraints.compile(regex(kBomb), cached).ok()) << "refusals are kept, too";
}

TEST_F(ConstraintCompilerTest, StopsWhenItIsCancelled) {
  ConstraintCompiler constraints = compiler();
  std::stop_source stop;
  stop.request_stop();
  const CompileOptions cancelled{.yield_point = YieldPoint(stop.get_token())};
  EXPECT_THROW((void)constraints.compile(regex(kBomb), cancelled), Cancelled);
  EXPECT_FALSE(constraints.compile(regex(kBomb)).ok()) << "the next caller compiles it";
}

TEST_F(ConstraintCompilerTest, ACallerThatIsCancelledLeavesTheOthersTheirResult) {
  ConstraintCompiler constraints = compiler();
  std::stop_source stop;
  std::thread first([&] {
    const CompileOptions options{.yield_point = YieldPoint(stop.get_token())};
    try {
      (void)constraints.compile(regex(kBomb), options);
    } catch (const Cancelled&) {  // unless it was faster
    }
  });
  std::thread second([&] { EXPECT_FALSE(constraints.compile(regex(kBomb)).ok()); });
  stop.request_stop();
  first.join();
  second.join();
}

TEST_F(ConstraintCompilerTest, DropsTheOldestBeyondTheLimit) {
  ConstraintCompiler constraints = compiler(1);
  const auto first = constraints.compile(regex("a+"));
  const auto second = constraints.compile(regex("b+"));
  const auto second_again = constraints.compile(regex("b+"));
  const auto first_again = constraints.compile(regex("a+"));
  ASSERT_TRUE(first.ok() && second.ok() && second_again.ok() && first_again.ok());
  EXPECT_EQ(*second, *second_again) << "the last one stays";
  EXPECT_NE(*first, *first_again);
}

TEST_F(ConstraintCompilerTest, NamesTheFieldOfTheRequestThatIsRefused) {
  ConstraintCompiler constraints = compiler();
  for (const std::string field : {"guided_regex", "regex"}) {
    const auto refused = constraints.compile(regex("a(", field));
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.failure().param, field);
    EXPECT_EQ(refused.failure().message.find(field + ": "), 0U) << refused.failure().message;
  }
}

TEST_F(ConstraintCompilerTest, NamesKeywordsWithoutEffect) {
  ConstraintCompiler constraints = compiler();
  const StructuredOutputs schema{
      .kind = Kind::kJsonSchema,
      .text =
          R"({"type":"object","properties":{"a":{"type":"integer","colour":"red"}},"additionalProperties":false})"};
  const auto compiled = constraints.compile(schema);
  ASSERT_TRUE(compiled.ok());
  EXPECT_EQ((*compiled)->ignored(), (std::vector<std::string>{"/properties/a/colour"}));
  EXPECT_TRUE((*constraints.compile(regex("a+")))->ignored().empty());
}

TEST_F(ConstraintCompilerTest, RefusesEveryConstraintWithoutATokenizer) {
  ConstraintCompiler constraints(nullptr, 100, {0}, 0);
  const auto refused = constraints.compile(regex("a"));
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.failure().message.find("tokenizer"), std::string::npos);
}

// Each kind: a text that only the right front end accepts.
TEST_F(ConstraintCompilerTest, CompilesEveryKind) {
  ConstraintCompiler constraints = compiler();
  const StructuredOutputs specs[] = {
      {.kind = Kind::kJsonObject, .field = "f"},
      {.kind = Kind::kJsonSchema, .text = R"({"type":"object","properties":{"a":{"type":"integer"}}})"},
      {.kind = Kind::kRegex, .text = "[0-9]+"},
      {.kind = Kind::kChoice, .text = R"(["yes","no"])"},
      {.kind = Kind::kGrammar, .text = "root ::= \"a\" root | \"b\""},
      {.kind = Kind::kStructuralTag,
       .text = R"({"type":"structural_tag","format":{"type":"json_schema","json_schema":{"type":"null"}}})"},
  };
  for (const StructuredOutputs& spec : specs) {
    const auto compiled = constraints.compile(spec);
    EXPECT_TRUE(compiled.ok()) << static_cast<int>(spec.kind) << ": "
                               << (compiled.ok() ? "" : compiled.failure().message);
  }
}

}  // namespace
}  // namespace quire
