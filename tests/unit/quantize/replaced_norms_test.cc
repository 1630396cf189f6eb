// Norms that an adapter replaces: every model has the outputs of a checkpoint with these weights, bit by bit.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "models/adapter_targets.h"
#include "quantize/overlay_checkpoint.h"
#include "support/golden_checkpoint.h"
#include "unit/models/golden_models.h"
#include "unit/quantize/model_logits.h"

namespace quire {
namespace {

Buffer buffer_of(const std::vector<float>& values) {
  Buffer out(values.size() * sizeof(float));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

// Puts random weights into all norms, of the adapter and of the checkpoint alike.
AdapterWeights replace_norms(const AdapterTargets& targets, OverlayCheckpoint& checkpoint) {
  AdapterWeights adapter;
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.9F, 0.3F);
  const auto draw = [&](int64_t size) {
    std::vector<float> values(static_cast<size_t>(size));
    for (float& value : values) value = normal(random);
    return values;
  };
  for (const auto& [name, module] : targets.modules) {
    if (module.kind != AdapterModuleKind::kNorm) continue;
    for (const AdapterRange& range : module.ranges) {
      const std::string& tensor = range.whole->weight;
      if (adapter.norms.contains(range.site) || checkpoint.find(tensor) == nullptr) continue;
      auto norm = std::make_shared<ReplacedNorm>();
      std::vector<float> weight = draw(range.rows);
      checkpoint.replace(tensor, weight);
      for (float& value : weight) value += range.whole->offset;
      norm->weight = buffer_of(weight);
      if (range.whole->bias) {
        const std::vector<float> bias = draw(range.rows);
        checkpoint.replace(tensor.substr(0, tensor.rfind('.')) + ".bias", bias);
        norm->bias = buffer_of(bias);
      }
      adapter.norms[range.site] = std::move(norm);
    }
  }
  return adapter;
}

class ReplacedNorms : public testing::TestWithParam<std::string> {};

TEST_P(ReplacedNorms, HaveTheBitsOfACheckpointWithThem) {
  const auto checkpoint = Checkpoint::open(test::golden_model(GetParam()));
  const AdapterTargets targets = adapter_targets(*checkpoint, read_spec(*checkpoint, Runner::kAuto));
  OverlayCheckpoint changed(*checkpoint);
  const AdapterWeights adapter = replace_norms(targets, changed);
  ASSERT_FALSE(adapter.norms.empty());
  const std::vector<float> expected = test::logits_of(changed, nullptr);
  EXPECT_EQ(test::logits_of(*checkpoint, &adapter), expected);
  EXPECT_NE(test::logits_of(*checkpoint, nullptr), expected);
}

std::vector<std::string> models_with_norms() {
  std::vector<std::string> names = test::golden_names("models");
  // Their norms have no weights.
  std::erase_if(names, [](const std::string& name) {
    return name == "nanochat" || name == "olmo" || name == "olmo-clip";
  });
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, ReplacedNorms, testing::ValuesIn(models_with_norms()),
                         [](const auto& test) { return test::test_name(test.param); });

}  // namespace
}  // namespace quire
