// Every model computes with an adapter on all matrices that an adapter can change.
#include <gtest/gtest.h>

#include "backends/cpu/cpu_backend.h"
#include "models/adapter_targets.h"
#include "unit/models/adapter_of_all.h"
#include "unit/models/golden_models.h"
#include "unit/models/guarded_ops.h"
#include "unit/models/paged_runner.h"

namespace quire {
namespace {

const OpTable& cpu_table() {
  return *select_cpu_isa().table;
}

class AdaptedModels : public testing::TestWithParam<std::string> {};

TEST_P(AdaptedModels, ComputeWithAnAdapterOnEveryMatrix) {
  const OpTable ops = checked(*select_cpu_isa().table);
  const auto loaded = test::load_model(test::golden_model(GetParam()), ops);
  const AdapterTargets targets = adapter_targets(*loaded.checkpoint, loaded.model->spec());
  const auto prompt = read_json_file(test::golden_model(GetParam()) / "golden.json")["cases"][1]["prompt"]
                          .get<std::vector<int32_t>>();
  const auto whole = static_cast<int64_t>(prompt.size());
  const auto run = [&](const AdapterWeights* adapter, int64_t chunk) {
    return test::PagedRunner(*loaded.model, ops, nullptr, {.adapter = adapter}).append(prompt, chunk);
  };
  const AdapterWeights changed = test::adapter_of_all(targets, 0.3F);
  const auto expected = run(&changed, whole);
  EXPECT_EQ(run(&changed, 3), expected);
  const auto base = run(nullptr, whole);
  EXPECT_NE(expected, base);
  // A change of zero goes the way of changed rows: with the activation on its own, where a product applies
  // it.
  const AdapterWeights nothing = test::adapter_of_all(targets, 0.0F);
  EXPECT_EQ(run(&nothing, whole), base);
}

TEST_P(AdaptedModels, ComputeTheSameBitsInGuardedMemory) {
  const OpTable ops = test::guarded<cpu_table>();
  const auto loaded = test::load_model(test::golden_model(GetParam()), ops);
  const AdapterWeights adapter =
      test::adapter_of_all(adapter_targets(*loaded.checkpoint, loaded.model->spec()), 0.3F);
  const auto prompt = read_json_file(test::golden_model(GetParam()) / "golden.json")["cases"][0]["prompt"]
                          .get<std::vector<int32_t>>();
  const auto run = [&](bool guarded) {
    return test::PagedRunner(*loaded.model, ops, nullptr, {.adapter = &adapter, .guarded = guarded})
        .append(prompt, 3);
  };
  EXPECT_EQ(run(true), run(false));
}

INSTANTIATE_TEST_SUITE_P(All, AdaptedModels, testing::ValuesIn(test::golden_names("models")),
                         [](const auto& test) { return test::test_name(test.param); });

}  // namespace
}  // namespace quire
