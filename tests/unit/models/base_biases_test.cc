// Biases of a checkpoint by the sites of adapters.
#include "models/base_biases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "models/pooling_files.h"
#include "models/site_tensors.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

// Checkpoints of gpt-oss have one tensor with the biases of all experts of a layer.
TEST(BaseBiases, AnExpertHasItsPartOfAStackedTensor) {
  const auto checkpoint = Checkpoint::open(test::golden_model("gpt_oss"));
  const ModelSpec spec = read_spec(*checkpoint, Runner::kAuto);
  const TensorResolver resolver(spec, *checkpoint);
  int64_t experts = 0;
  for (const SiteTensor& tensor : site_tensors({spec}, resolver)) {
    if (!tensor.weight.stacked || tensor.weight.row_layout != nullptr) continue;
    ASSERT_TRUE(tensor.bias);
    const auto found = read_site_biases(*checkpoint, spec, std::vector<int32_t>{tensor.site});
    ASSERT_EQ(found.size(), 1U);
    const auto* stored = reinterpret_cast<const float*>(checkpoint->bytes(tensor.bias->name).data());
    const int64_t count = out_features(tensor.weight);
    EXPECT_EQ(found.at(tensor.site),
              std::vector<float>(stored + tensor.part * count, stored + (tensor.part + 1) * count));
    ++experts;
  }
  EXPECT_GE(experts, 4);
}

TEST(BaseBiases, SitesWithoutBiasesAreLeftOut) {
  const auto checkpoint = Checkpoint::open(test::golden_model("llama"));
  const ModelSpec spec = read_spec(*checkpoint, Runner::kAuto);
  EXPECT_TRUE(read_site_biases(*checkpoint, spec, std::vector<int32_t>{0, 1, 2, 3}).empty());
}

}  // namespace
}  // namespace quire
