// Every golden model on every instruction set that this machine has.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "backends/cpu/cpu_backend.h"
#include "base/thread_pool.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

std::vector<std::string> supported_isas() {
  std::vector<std::string> names;
  for (const auto& isa : cpu_isas()) {
    if (isa.supported) names.emplace_back(isa.name);
  }
  return names;
}

using IsaAndModel = std::tuple<std::string, std::string>;

class ModelIsa : public testing::TestWithParam<IsaAndModel> {};

TEST_P(ModelIsa, EqualsTransformersInAnyChunking) {
  const auto& [isa, model] = GetParam();
  test::expect_golden(model, *select_cpu_isa(isa).table);
}

INSTANTIATE_TEST_SUITE_P(All, ModelIsa,
                         testing::Combine(testing::ValuesIn(supported_isas()),
                                          testing::ValuesIn(test::golden_names())),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" + test::test_name(std::get<1>(test.param));
                         });

class StoriesIsa : public testing::TestWithParam<std::string> {};

TEST_P(StoriesIsa, GreedyTokensAreExact) {
  test::expect_stories(*select_cpu_isa(GetParam()).table);
}

// The same bits with one thread and with three, for steps of many rows and of one.
TEST_P(StoriesIsa, ThreadsDoNotChangeABit) {
  const auto dir = test::golden_dir() / "llama";
  const OpTable& ops = *select_cpu_isa(GetParam()).table;
  const auto loaded = test::load_model(dir, ops);
  const std::vector<int32_t> prompt = {5,  17, 3,  88, 41, 9,  2, 60, 33, 71,
                                       12, 4,  90, 55, 28, 19, 1, 7,  64, 80};
  test::PagedRunner alone(*loaded.model, ops, nullptr, {});
  ThreadPool pool(3);
  test::RunnerOptions options;
  options.threads = 3;
  test::PagedRunner together(*loaded.model, ops, &pool, options);
  EXPECT_EQ(alone.append(prompt, 20), together.append(prompt, 20));
  EXPECT_EQ(alone.append(prompt, 1), together.append(prompt, 1));
}

INSTANTIATE_TEST_SUITE_P(All, StoriesIsa, testing::ValuesIn(supported_isas()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace quire
