// Adapters on parameters with the matrices of all experts.
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
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kExperts = 2;
constexpr int64_t kOut = 4;  // of both parameters

// Adapters on the parameters of "moe.experts" in layer 0: gate_up_proj [2, 4, 4] and down_proj [2, 4, 2], of
// which the second wraps the first.
struct ExpertFiles : AdapterFiles {
  explicit ExpertFiles(int64_t rank = 2) {
    tensors.clear();
    config["target_modules"] = nlohmann::json::array();
    config["target_parameters"] = {"experts.gate_up_proj", "experts.down_proj"};
    config["peft_version"] = "0.21.2";
    config["r"] = rank;
    config["lora_alpha"] = 2 * rank;
    add("moe.experts.base_layer", {kExperts * rank, 4}, {kOut, kExperts * rank});
    add("moe.experts", {kExperts * rank, 2}, {kOut, kExperts * rank});
  }
};

const LowRank& site_of(const LoadedAdapter& loaded, const std::string& parameter, size_t expert) {
  const AdapterTargets targets = small_model();
  const auto ranges = find_target(targets, "model.layers.0.moe.experts." + parameter).ranges;
  return *loaded.adapter->at(ranges[expert].site);
}

// The change of an expert, from tensors whose elements count from 1, as PEFT defines it: columns j E + e of B
// and rows e r + j of A. transposed: A has the outputs, and B the inputs.
std::vector<float> expected(int64_t in, int64_t rank, int64_t expert, bool transposed = false) {
  const auto value = [](int64_t row, int64_t columns, int64_t column) {
    return static_cast<float>(1 + row * columns + column);
  };
  std::vector<float> change;
  for (int64_t n = 0; n < kOut; ++n) {
    for (int64_t k = 0; k < in; ++k) {
      float sum = 0.0F;
      for (int64_t j = 0; j < rank; ++j) {
        sum += value(transposed ? k : n, kExperts * rank, j * kExperts + expert) *
               value(expert * rank + j, transposed ? kOut : in, transposed ? n : k);
      }
      change.push_back(2.0F * sum);
    }
  }
  return change;
}

TEST(StackedExperts, HaveTheirRowsOfAAndTheirColumnsOfB) {
  const LoadedAdapter loaded = load(ExpertFiles());
  for (size_t e = 0; e < kExperts; ++e) {
    const auto expert = static_cast<int64_t>(e);
    EXPECT_EQ(change_of(site_of(loaded, "gate_up_proj", e), kOut), expected(4, 2, expert));
    EXPECT_EQ(change_of(site_of(loaded, "down_proj", e), kOut), expected(2, 2, expert));
  }
}

TEST(StackedExperts, AreOfTheListedParameterIfOnlyOneHasAnAdapter) {
  ExpertFiles files;
  files.config["target_parameters"] = {"0.moe.experts.down_proj"};
  files.tensors.erase(std::string(AdapterFiles::kLayer) + "moe.experts.base_layer.lora_A.weight");
  files.tensors.erase(std::string(AdapterFiles::kLayer) + "moe.experts.base_layer.lora_B.weight");
  const LoadedAdapter loaded = load(files);
  EXPECT_EQ(change_of(site_of(loaded, "down_proj", 1), kOut), expected(2, 2, 1));
  ASSERT_EQ(loaded.info.modules.size(), 1U);
  EXPECT_EQ(loaded.info.modules[0].pattern, "model.layers.{}.moe.experts.down_proj");
  EXPECT_EQ(loaded.info.modules[0].experts, kExperts);
  EXPECT_EQ(loaded.info.modules[0].rank, 2);
  EXPECT_EQ(loaded.info.modules[0].in, 2);
}

// PEFT before 0.19.1 takes [experts, out, in] for [experts, in, out].
TEST(StackedExperts, AreTransposedIfAnOldVersionOfPeftSavedThem) {
  ExpertFiles files;
  files.add("moe.experts", {kExperts * 2, kOut}, {2, kExperts * 2});
  const LoadedAdapter loaded = load(files);
  for (size_t e = 0; e < kExperts; ++e) {
    const auto expert = static_cast<int64_t>(e);
    EXPECT_EQ(change_of(site_of(loaded, "down_proj", e), kOut), expected(2, 2, expert, true));
    // The other parameter is square; the file has it in the same way.
    EXPECT_EQ(change_of(site_of(loaded, "gate_up_proj", e), kOut), expected(4, 2, expert, true));
  }
}

TEST(StackedExperts, ThatAreSquareAreReadAsTheVersionOfPeftSavesThem) {
  struct Case {
    const char* version;
    bool transposed;
  };
  for (const auto& [version, transposed] : {Case{"", true}, Case{"0.17.1", true}, Case{"0.19.0", true},
                                            Case{"0.19.1", false}, Case{"0.21.2.dev0", false}}) {
    ExpertFiles files;
    files.config["peft_version"] = version;
    files.config["target_parameters"] = {"experts.gate_up_proj"};
    files.tensors.clear();
    files.add("moe.experts", {kExperts * 2, 4}, {kOut, kExperts * 2});
    const LoadedAdapter loaded = load(files);
    EXPECT_EQ(change_of(site_of(loaded, "gate_up_proj", 1), kOut), expected(4, 2, 1, transposed)) << version;
  }
}

TEST(StackedExperts, HaveThePatternsOfTheirParameter) {
  ExpertFiles files;
  files.config["rank_pattern"] = {{"experts.down_proj", 3}};
  files.config["alpha_pattern"] = {{"down_proj", 6}};
  files.add("moe.experts", {kExperts * 3, 2}, {kOut, kExperts * 3});
  const LoadedAdapter loaded = load(files);
  EXPECT_EQ(change_of(site_of(loaded, "down_proj", 0), kOut), expected(2, 3, 0));
  EXPECT_EQ(change_of(site_of(loaded, "gate_up_proj", 0), kOut), expected(4, 2, 0));
}

// A module whose weight is listed as a parameter.
TEST(StackedExperts, SharePatternsOfParametersWithOtherModules) {
  AdapterFiles files;
  files.config["target_parameters"] = {"q_proj.weight"};
  files.config["alpha_pattern"] = {{"q_proj.weight", 6}};
  const LoadedAdapter loaded = load(files);
  EXPECT_EQ(loaded.adapter->at(0)->pieces[0].scale, 3.0F);
}

TEST(StackedExperts, AreAWarningIfListedWithoutTensors) {
  ExpertFiles files;
  files.config["target_parameters"].push_back("other.gate_up_proj");
  EXPECT_THAT(load(files).info.warnings,
              ElementsAre(HasSubstr("the file has no tensors: other.gate_up_proj")));
}

TEST(StackedExperts, KeepTheTypeOfTheFile) {
  ExpertFiles files(1);
  files.tensors.clear();
  files.add("moe.experts.base_layer", {kExperts, 4}, {kOut, kExperts}, DType::kBF16);
  files.add("moe.experts", {kExperts, 2}, {kOut, kExperts}, DType::kF16);
  const LoadedAdapter loaded = load(files);
  EXPECT_EQ(site_of(loaded, "gate_up_proj", 0).dtype, DType::kBF16);
  EXPECT_EQ(site_of(loaded, "down_proj", 0).dtype, DType::kF16);
  EXPECT_EQ(change_of(site_of(loaded, "gate_up_proj", 1), kOut), expected(4, 1, 1));
}

TEST(StackedExperts, AreRefusedWithTheirShapesIfTheyDoNotFit) {
  ExpertFiles rank;
  rank.config["r"] = 4;
  EXPECT_THAT(refusal(rank),
              HasSubstr("moe.experts.gate_up_proj: lora_A is [4, 4] for 2 experts, but the rank in "
                        "adapter_config.json is 4"));
  ExpertFiles shape;
  shape.add("moe.experts", {4, 3}, {kOut, 4});
  EXPECT_THAT(refusal(shape),
              HasSubstr("moe.experts.down_proj: lora_A is [4, 3] and lora_B [4, 4], this model needs "
                        "[2 * rank, 2] and [4, rank * 2] for 2 experts"));
  ExpertFiles odd;
  odd.add("moe.experts", {3, 2}, {kOut, 3});
  EXPECT_THAT(refusal(odd), HasSubstr("moe.experts.down_proj: lora_A is [3, 2] for 2 experts"));
  ExpertFiles bias;
  bias.tensors[std::string(AdapterFiles::kLayer) + "moe.experts.lora_B.bias"] = counting({kOut});
  EXPECT_THAT(refusal(bias), HasSubstr("cannot have a bias of lora_B"));
}

TEST(StackedExperts, AreRefusedIfItIsNotKnownWhichParametersTheyAreOf) {
  ExpertFiles files;
  files.config["target_parameters"] = {"experts.down_proj"};
  EXPECT_THAT(refusal(files),
              HasSubstr("moe.experts: has adapters for 2 of its parameters, which must be down_proj"));
  ExpertFiles unlisted;
  unlisted.config.erase("target_parameters");
  unlisted.tensors.erase(std::string(AdapterFiles::kLayer) + "moe.experts.lora_A.weight");
  unlisted.tensors.erase(std::string(AdapterFiles::kLayer) + "moe.experts.lora_B.weight");
  EXPECT_THAT(refusal(unlisted),
              HasSubstr("has adapters for 1 of its parameters, which must be gate_up_proj and "
                        "down_proj"));
}

TEST(StackedExperts, AreRefusedIfTheLayerHasNone) {
  AdapterFiles files;
  files.config["target_parameters"] = {"experts.down_proj"};
  files.tensors["base_model.model.model.layers.1.moe.experts.lora_A.weight"] = counting({4, 2});
  files.tensors["base_model.model.model.layers.1.moe.experts.lora_B.weight"] = counting({4, 4});
  EXPECT_THAT(refusal(files),
              HasSubstr("layers.1.moe.experts.down_proj: this model has no such module in this layer"));
}

TEST(StackedExperts, AreExaminedWithoutAModel) {
  const ExpertFiles files;
  files.write();
  const auto info = examine_adapter(files.source(), nullptr);
  ASSERT_TRUE(info.ok()) << info.failure().message;
  ASSERT_EQ(info.value().modules.size(), 2U);
  for (const AdapterModuleInfo& module : info.value().modules) {
    EXPECT_EQ(module.experts, kExperts) << module.name;
    EXPECT_EQ(module.rank, 2) << module.name;
  }
}

}  // namespace
}  // namespace quire::lora
