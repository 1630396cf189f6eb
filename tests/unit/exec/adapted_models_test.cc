// Every model computes with an adapter on all matrices that an adapter can change.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "backends/cpu/cpu_backend.h"
#include "models/adapter_targets.h"
#include "unit/models/golden_models.h"
#include "unit/models/paged_runner.h"

namespace quire {
namespace {

// Changes of rank 2 of all places, with B times `size`.
AdapterWeights adapter_of_all(const AdapterTargets& targets, float size) {
  std::map<int32_t, std::map<int64_t, const AdapterRange*>> sites;
  for (const auto& [name, module] : targets.modules) {
    if (module.kind != AdapterModuleKind::kMatrix) continue;
    for (const AdapterRange& range : module.ranges) {
      const AdapterRange*& at = sites[range.site][range.out_begin];
      // A range of several parameters is replaced by that of the first one alone.
      if (at == nullptr || range.rows < at->rows) at = &range;
    }
  }
  AdapterWeights adapter;
  adapter.sites.resize(static_cast<size_t>(targets.num_sites));
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (const auto& [site, ranges] : sites) {
    auto change = std::make_unique<LowRank>();
    change->k = ranges.begin()->second->in;
    int64_t elements = 0;
    for (const auto& [begin, range] : ranges) {
      change->pieces.push_back({.out_begin = begin, .n = range->rows, .rank = 2, .scale = 0.5F});
      elements += 2 * range->rows;
    }
    change->a = Buffer(static_cast<size_t>(change->ranks() * change->k) * sizeof(float));
    change->b = Buffer(static_cast<size_t>(elements) * sizeof(float));
    for (Buffer* buffer : {&change->a, &change->b}) {
      const float scale = buffer == &change->b ? size : 0.2F;
      for (size_t i = 0; i < buffer->size() / sizeof(float); ++i)
        buffer->as<float>()[i] = scale * normal(random);
    }
    adapter.sites[static_cast<size_t>(site)] = std::move(change);
  }
  return adapter;
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
  const AdapterWeights changed = adapter_of_all(targets, 0.3F);
  const auto expected = run(&changed, whole);
  EXPECT_EQ(run(&changed, 3), expected);
  const auto base = run(nullptr, whole);
  EXPECT_NE(expected, base);
  // A change of zero goes the way of changed rows: with the activation on its own, where a product applies
  // it.
  const AdapterWeights nothing = adapter_of_all(targets, 0.0F);
  EXPECT_EQ(run(&nothing, whole), base);
}

INSTANTIATE_TEST_SUITE_P(All, AdaptedModels, testing::ValuesIn(test::golden_names("models")),
                         [](const auto& test) { return test::test_name(test.param); });

}  // namespace
}  // namespace quire
