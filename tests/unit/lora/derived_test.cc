// Adapters on modules from which matrices in memory are computed, as kv_b_proj of latent attention.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/lora/lora_testing.h"

namespace quire::lora {
namespace {

using test::AdapterFiles;
using test::change_of;
using test::counting;
using test::load;
using test::refusal;
using test::small_model;
using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kHeads = 2;
constexpr int64_t kKeys = 2;     // rows of a head
constexpr int64_t kValues = 3;   // the same
constexpr int64_t kRotary = 1;   // further columns of a query, and rows of a cached key
constexpr int64_t kColumns = 4;  // columns
constexpr int64_t kRows = kHeads * (kKeys + kValues);
constexpr int64_t kRank = 2;

// kv_b_proj of layer 0, of which there are a transposed and a plain matrix per head.
AdapterTargets model_with_heads() {
  AdapterTargets targets = small_model();
  AdapterModule& module = targets.modules["layers.{}.self_attn.kv_b_proj"];
  for (int64_t head = 0; head < kHeads; ++head) {
    const int64_t first = head * (kKeys + kValues);
    module.ranges.push_back(
        {.numbers = {0, -1, -1, -1},
         .site = targets.num_sites++,
         .out_begin = kRotary,
         .rows = kColumns,
         .in = kKeys + kRotary,
         .site_rows = kRotary + kColumns,
         .part = SourceRows{.begin = first, .count = kKeys, .transposed = true, .out_begin = kRotary}});
    module.ranges.push_back({.numbers = {0, -1, -1, -1},
                             .site = targets.num_sites++,
                             .rows = kValues,
                             .in = kColumns,
                             .site_rows = kValues,
                             .part = SourceRows{.begin = first + kKeys, .count = kValues}});
  }
  return targets;
}

AdapterFiles files_of(DType dtype = DType::kF32) {
  AdapterFiles files;
  files.tensors.clear();
  files.add("self_attn.kv_b_proj", {kRank, kColumns}, {kRows, kRank}, dtype);
  return files;
}

// Element [row, column] of the module's change, whose A and B count from 1, with scale 2.
float change(int64_t row, int64_t column) {
  float sum = 0.0F;
  for (int64_t j = 0; j < kRank; ++j)
    sum += static_cast<float>((1 + row * kRank + j) * (1 + j * kColumns + column));
  return 2.0F * sum;
}

TEST(DerivedModules, ChangeTheMatricesOfAllHeads) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const AdapterTargets targets = model_with_heads();
    const LoadedAdapter loaded = load(files_of(dtype), targets);
    const auto ranges = find_target(targets, "model.layers.0.self_attn.kv_b_proj").ranges;
    ASSERT_EQ(ranges.size(), 2U * kHeads);
    for (const AdapterRange& range : ranges) {
      const LowRank* found = loaded.adapter->at(range.site);
      ASSERT_NE(found, nullptr);
      ASSERT_TRUE(is_complete(*found, range.site_rows));
      std::vector<float> expected;
      for (int64_t n = 0; n < range.site_rows; ++n) {
        for (int64_t k = 0; k < range.in; ++k) {
          if (!range.part->transposed) {
            expected.push_back(change(range.part->begin + n, k));
          } else {
            const bool fixed = n < kRotary || k >= kKeys;
            expected.push_back(fixed ? 0.0F : change(range.part->begin + k, n - kRotary));
          }
        }
      }
      EXPECT_EQ(change_of(*found, range.site_rows), expected);
    }
  }
}

TEST(DerivedModules, HaveTheMemoryOfTheirTensorsAndOneTransposedA) {
  const LoadedAdapter loaded = load(files_of(), model_with_heads());
  const int64_t a = kRank * kColumns;
  const int64_t keys = kHeads * kRank * (kKeys + kRotary);
  const int64_t values = kHeads * kRank * kValues;
  EXPECT_EQ(loaded.info.bytes, (2 * a + keys + values) * static_cast<int64_t>(sizeof(float)));
  ASSERT_EQ(loaded.info.modules.size(), 1U);
  EXPECT_EQ(loaded.info.modules[0].in, kColumns);
  EXPECT_EQ(loaded.info.modules[0].out, kRows);
  const int32_t first = small_model().num_sites;
  EXPECT_EQ(loaded.adapter->at(first)->b.data(), loaded.adapter->at(first + 2)->b.data());
  EXPECT_EQ(loaded.adapter->at(first + 1)->a.data(), loaded.adapter->at(first + 3)->a.data());
}

// A bias of keys adds the same to all scores of a query.
TEST(DerivedModules, HaveTheBiasOfValuesOnly) {
  AdapterFiles files = files_of();
  files.config["lora_bias"] = true;
  files.tensors[std::string(AdapterFiles::kLayer) + "self_attn.kv_b_proj.lora_B.bias"] = counting({kRows});
  const LoadedAdapter loaded = load(files, model_with_heads());
  const int32_t first = small_model().num_sites;
  EXPECT_EQ(loaded.adapter->at(first + 2)->bias.size(), 0U);
  const Buffer& bias = loaded.adapter->at(first + 3)->bias;
  ASSERT_EQ(bias.size(), kValues * sizeof(float));
  for (int64_t i = 0; i < kValues; ++i)
    EXPECT_EQ(bias.as<float>()[i], 2.0F * static_cast<float>(kKeys + kValues + kKeys + i));
}

TEST(DerivedModules, MustHaveTheShapeOfAllHeads) {
  AdapterFiles files = files_of();
  files.add("self_attn.kv_b_proj", {kRank, kColumns + 1}, {kKeys + kValues, kRank});
  EXPECT_THAT(refusal(files, {}, model_with_heads()),
              AllOf(HasSubstr("kv_b_proj: lora_A is [2, 5], this model needs [2, 4]"),
                    HasSubstr("lora_B is [5, 2], this model needs [10, 2]")));
}

TEST(DerivedModules, HaveNoTrainedBiases) {
  AdapterFiles files = files_of();
  files.tensors[std::string(AdapterFiles::kLayer) + "self_attn.kv_b_proj.bias"] = counting({kRows});
  EXPECT_THAT(refusal(files, {}, model_with_heads()), HasSubstr("trained biases of this module"));
}

}  // namespace
}  // namespace quire::lora
