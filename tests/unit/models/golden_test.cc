// Every supported architecture against transformers, with the reference ops.
#include <gtest/gtest.h>

#include "ops/reference.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

class GoldenModel : public testing::TestWithParam<std::string> {};

TEST_P(GoldenModel, EqualsTransformersInAnyChunking) {
  test::expect_golden(GetParam(), reference_ops());
}

INSTANTIATE_TEST_SUITE_P(All, GoldenModel, testing::ValuesIn(test::golden_names("models")),
                         [](const auto& test) { return test::test_name(test.param); });

TEST(Stories260K, GreedyTokensAreExact) {
  test::expect_stories(reference_ops());
}

}  // namespace
}  // namespace quire
