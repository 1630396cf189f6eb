// The forms of adapters that are loaded, and what they change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "unit/lora/lora_testing.h"

namespace quire::lora {
namespace {

using test::AdapterFiles;
using test::change_of;
using test::counted_change;
using test::counting;
using test::load;
using testing::ElementsAre;
using testing::IsEmpty;

// Rows [begin, end) of a change.
std::vector<float> rows_of(const std::vector<float>& change, size_t begin, size_t end, size_t k = 4) {
  return {change.begin() + static_cast<ptrdiff_t>(begin * k),
          change.begin() + static_cast<ptrdiff_t>(end * k)};
}

TEST(LoadAdapter, PutsModulesIntoTheirRowsOfAFusedSite) {
  const AdapterFiles files;
  const LoadedAdapter loaded = load(files);
  const LowRank* qkv = loaded.adapter->at(0);
  const LowRank* gate_up = loaded.adapter->at(1);
  ASSERT_NE(qkv, nullptr);
  ASSERT_NE(gate_up, nullptr);
  EXPECT_EQ(loaded.adapter->at(2), nullptr);
  EXPECT_EQ(qkv->k, 4);
  ASSERT_EQ(qkv->pieces.size(), 1U);
  EXPECT_EQ(qkv->pieces[0].n, 4);
  EXPECT_EQ(rows_of(change_of(*qkv, 8), 0, 4), counted_change(4, 2, 4, 2.0F));
  EXPECT_EQ(rows_of(change_of(*gate_up, 12), 6, 12), counted_change(6, 2, 4, 2.0F));
}

TEST(LoadAdapter, OrdersThePiecesOfASiteByTheirRowsWithTheirOwnRanks) {
  AdapterFiles files;
  files.add("self_attn.v_proj", {3, 4}, {2, 3});
  files.config["rank_pattern"] = {{"v_proj", 3}};
  files.config["alpha_pattern"] = {{"v_proj", 6}};
  const LoadedAdapter loaded = load(files);
  const LowRank& qkv = *loaded.adapter->at(0);
  ASSERT_EQ(qkv.pieces.size(), 2U);
  EXPECT_EQ(qkv.pieces[1].out_begin, 6);
  EXPECT_EQ(qkv.pieces[1].rank, 3);
  EXPECT_EQ(qkv.ranks(), 5);
  EXPECT_EQ(rows_of(change_of(qkv, 8), 6, 8), counted_change(2, 3, 4, 2.0F));
}

TEST(LoadAdapter, ReadsAFusedModuleAsOnePiece) {
  AdapterFiles files;
  files.tensors.clear();
  files.add("self_attn.qkv_proj", {2, 4}, {8, 2});
  const LoadedAdapter loaded = load(files);
  EXPECT_EQ(change_of(*loaded.adapter->at(0), 8), counted_change(8, 2, 4, 2.0F));
}

TEST(LoadAdapter, OrdersRowsOfBAsTheModelDoes) {
  AdapterFiles files;
  files.tensors.clear();
  files.add("attention.query_key_value", {2, 4}, {8, 2});
  const LoadedAdapter loaded = load(files);
  const auto stored = counted_change(8, 2, 4, 2.0F);
  std::vector<float> expected;
  for (const size_t row : {0U, 1U, 4U, 5U, 2U, 6U, 3U, 7U}) {
    const auto part = rows_of(stored, row, row + 1);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  EXPECT_EQ(change_of(*loaded.adapter->at(0), 8), expected);
}

TEST(LoadAdapter, AppliesAModuleToAllOfItsPlaces) {
  AdapterFiles files;
  files.tensors.clear();
  files.tensors["model.layers.1.self_attn.kv_proj.lora_A.weight"] = counting({2, 4}, 1);
  files.tensors["model.layers.1.self_attn.kv_proj.lora_B.weight"] = counting({2, 2}, 1);
  const LoadedAdapter loaded = load(files);
  const auto change = change_of(*loaded.adapter->at(3), 8);
  EXPECT_EQ(rows_of(change, 4, 6), counted_change(2, 2, 4, 2.0F));
  EXPECT_EQ(rows_of(change, 6, 8), counted_change(2, 2, 4, 2.0F));
}

TEST(LoadAdapter, AcceptsNamesWithAndWithoutThePartsThatPeftAdds) {
  for (const std::string prefix :
       {"base_model.model.model.", "base_model.model.", "model.language_model.", ""}) {
    for (const std::string name :
         {"q_proj.lora_#.weight", "q_proj.lora_#.default.weight", "q_proj.base_layer.lora_#.weight",
          "q_proj.modules_to_save.default.lora_#.weight"}) {
      AdapterFiles files;
      files.tensors.clear();
      for (const char part : {'A', 'B'}) {
        std::string full = prefix;
        full.append("layers.1.self_attn.").append(name);
        full[full.find('#')] = part;
        files.tensors[full] =
            counting(part == 'A' ? std::vector<int64_t>{2, 4} : std::vector<int64_t>{4, 2}, 1);
      }
      const LoadedAdapter loaded = load(files);
      EXPECT_NE(loaded.adapter->at(3), nullptr) << prefix << name;
    }
  }
}

TEST(LoadAdapter, KeepsTheTypeOfTheFile) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    AdapterFiles files;
    files.tensors.clear();
    files.add("self_attn.q_proj", {2, 4}, {4, 2}, dtype);
    const LoadedAdapter loaded = load(files);
    EXPECT_EQ(loaded.adapter->at(0)->dtype, dtype);
    EXPECT_EQ(rows_of(change_of(*loaded.adapter->at(0), 8), 0, 4), counted_change(4, 2, 4, 2.0F));
  }
}

TEST(LoadAdapter, ConvertsASiteOfSeveralTypesToFloat32) {
  AdapterFiles files;
  files.add("self_attn.v_proj", {2, 4}, {2, 2}, DType::kBF16);
  const LoadedAdapter loaded = load(files);
  EXPECT_EQ(loaded.adapter->at(0)->dtype, DType::kF32);
  EXPECT_EQ(rows_of(change_of(*loaded.adapter->at(0), 8), 6, 8), counted_change(2, 2, 4, 2.0F));
}

TEST(LoadAdapter, DividesAlphaByTheRootOfTheRankWithRslora) {
  AdapterFiles files;
  files.config["r"] = 4;
  files.config["use_rslora"] = true;
  files.tensors.clear();
  files.add("self_attn.q_proj", {4, 4}, {4, 4});
  EXPECT_EQ(load(files).adapter->at(0)->pieces[0].scale, 2.0F);
}

TEST(LoadAdapter, UsesTheFirstPatternThatMatchesTheEndOfAName) {
  AdapterFiles files;
  files.config["alpha_pattern"] = {
      {"proj", 100}, {"layers\\.0\\.mlp\\.u.*", 6}, {"up_proj", 50}, {"self_attn.q_proj", 10}, {".*", 70}};
  const LoadedAdapter loaded = load(files);
  EXPECT_EQ(loaded.adapter->at(0)->pieces[0].scale, 5.0F);
  EXPECT_EQ(loaded.adapter->at(1)->pieces[0].scale, 3.0F);
}

TEST(LoadAdapter, UsesPeftsDefaultsForMissingKeys) {
  AdapterFiles files;
  files.config = nlohmann::ordered_json::object();
  files.tensors.clear();
  files.add("self_attn.q_proj", {8, 4}, {4, 8});
  EXPECT_EQ(load(files).adapter->at(0)->pieces[0].scale, 1.0F);
}

TEST(LoadAdapter, AddsTheScaledBiasOfB) {
  AdapterFiles files;
  files.config["lora_bias"] = true;
  files.add("self_attn.v_proj", {2, 4}, {2, 2});
  files.tensors[std::string(AdapterFiles::kLayer) + "self_attn.v_proj.lora_B.bias"] = counting({2}, 3);
  const LoadedAdapter loaded = load(files);
  const LowRank& qkv = *loaded.adapter->at(0);
  ASSERT_EQ(qkv.bias.size(), 8 * sizeof(float));
  const auto* bias = qkv.bias.as<float>();
  EXPECT_THAT(std::vector<float>(bias, bias + 8), ElementsAre(0, 0, 0, 0, 0, 0, 6, 8));
  EXPECT_EQ(loaded.adapter->at(1)->bias.size(), 0U);
}

TEST(LoadAdapter, ReportsTensorsOfModulesThatAreNotRun) {
  AdapterFiles files;
  files.add("self_attn.unused_proj", {2, 4}, {4, 2});
  files.tensors["base_model.model.visual.blocks.0.attn.qkv.lora_A.weight"] = counting({2, 9});
  files.tensors["base_model.model.mtp.fc.lora_A.weight"] = counting({2, 9});
  const AdapterInfo info = load(files).info;
  EXPECT_THAT(info.without_effect,
              ElementsAre("base_model.model.model.layers.0.self_attn.unused_proj.lora_A.weight",
                          "base_model.model.model.layers.0.self_attn.unused_proj.lora_B.weight",
                          "base_model.model.mtp.fc.lora_A.weight",
                          "base_model.model.visual.blocks.0.attn.qkv.lora_A.weight"));
  EXPECT_EQ(info.modules.size(), 2U);
}

TEST(LoadAdapter, IgnoresKeysThatOnlyChangeTraining) {
  AdapterFiles files;
  files.config["lora_dropout"] = 0.1;
  files.config["init_lora_weights"] = "gaussian";
  files.config["loftq_config"] = {{"loftq_bits", 4}};
  files.config["use_dora"] = false;
  files.config["layer_replication"] = nullptr;
  files.config["some_new_key"] = nlohmann::ordered_json::array();
  EXPECT_EQ(load(files).info.modules.size(), 2U);
}

TEST(ExamineAdapter, ReportsRanksScalesAndTheBytesThatLoadingTakes) {
  AdapterFiles files;
  files.add("self_attn.v_proj", {2, 4}, {2, 2}, DType::kBF16);
  files.write();
  const AdapterTargets targets = test::small_model();
  const auto examined = examine_adapter(files.source(), &targets);
  ASSERT_TRUE(examined.ok()) << examined.failure().message;
  const LoadedAdapter loaded = load(files);
  size_t bytes = 0;
  for (const auto& site : loaded.adapter->sites) {
    if (site != nullptr) bytes += site->a.size() + site->b.size() + site->bias.size();
  }
  EXPECT_EQ(examined->bytes, static_cast<int64_t>(bytes));
  EXPECT_EQ(examined->max_rank, 2);
  EXPECT_EQ(examined->base_model, "org/base");
  ASSERT_EQ(examined->modules.size(), 3U);
  EXPECT_EQ(examined->modules[0].name, "model.layers.0.mlp.up_proj");
  EXPECT_EQ(examined->modules[0].scale, 2.0F);
}

TEST(LoadAdapter, OrdersWideAndNarrowPanelsOfB) {
  AdapterTargets targets;
  targets.architecture = "LlamaForCausalLM";
  targets.prefixes = {""};
  targets.num_sites = 1;
  targets.modules["wide"].ranges.push_back({.site = 0, .rows = 150, .in = 3, .site_rows = 150});
  AdapterFiles files;
  files.tensors.clear();
  files.tensors["wide.lora_A.weight"] = counting({2, 3}, 1);
  files.tensors["wide.lora_B.weight"] = counting({150, 2}, 1);
  files.write();
  const auto loaded = load_adapter(files.source(), targets);
  ASSERT_TRUE(loaded.ok()) << loaded.failure().message;
  EXPECT_EQ(change_of(*loaded->adapter->at(0), 150), counted_change(150, 2, 3, 2.0F));
}

TEST(ExamineAdapter, WarnsAboutAnotherBaseAndListedModulesWithoutTensors) {
  AdapterFiles files;
  files.config["target_modules"] = {"q_proj", "v_proj", "mlp.up_proj"};
  files.write();
  const auto warnings_for = [&](const std::string& base) {
    const auto examined = examine_adapter(files.source(), nullptr, {.base_name = base});
    return examined.ok() ? examined->warnings : std::vector<std::string>{"refused"};
  };
  const std::string missing = "target_modules lists modules of which the file has no tensors: v_proj";
  EXPECT_THAT(warnings_for("/models/Base/"), ElementsAre(missing));
  EXPECT_THAT(warnings_for("org/other"),
              ElementsAre(missing, "the adapter was made for 'org/base', the model is 'org/other'"));
  files.config["exclude_modules"] = {"v_proj"};
  files.write();
  EXPECT_THAT(warnings_for("org/base"), IsEmpty());
}

TEST(ExamineAdapter, WarnsAboutABaseWithScaledInputs) {
  const AdapterFiles files;
  files.write();
  AdapterTargets targets = test::small_model();
  targets.scaled_inputs = true;
  const auto warnings_for = [&](const std::string& base) {
    const auto examined = examine_adapter(files.source(), &targets, {.base_name = base});
    return examined.ok() ? examined->warnings.size() : 99;
  };
  EXPECT_EQ(warnings_for("org/base"), 0U);
  EXPECT_EQ(warnings_for(""), 1U);
  EXPECT_EQ(warnings_for("org/base-awq"), 2U);
}

TEST(ExamineAdapter, NeedsNoModel) {
  const AdapterFiles files;
  files.write();
  const auto examined = examine_adapter(files.source(), nullptr);
  ASSERT_TRUE(examined.ok()) << examined.failure().message;
  EXPECT_EQ(examined->modules.size(), 2U);
  EXPECT_EQ(examined->bytes, (8 + 8 + 8 + 12) * 4);
  EXPECT_THAT(examined->without_effect, IsEmpty());
}

}  // namespace
}  // namespace quire::lora
