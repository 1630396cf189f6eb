// Adapters in GGUF files change a model from Hugging Face as they change the same model in a GGUF file, whose
// matrices have the names and the order of rows of the adapter's tensors. For all models that llama.cpp's
// converter supports.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf/gguf_checkpoint.h"
#include "lora/load_adapter.h"
#include "models/adapter_targets.h"
#include "support/golden_checkpoint.h"
#include "support/temp_dir.h"
#include "unit/models/gguf_goldens.h"
#include "unit/models/golden_models.h"
#include "unit/quantize/model_logits.h"

namespace quire {
namespace {

// Matrices that no adapter changes, by a part of their name.
constexpr std::array<std::string_view, 12> kOthers = {
    "_norm",    "ssm_conv1d", "ssm_a",     "ssm_d",          "position_embd", "token_types",
    "attn_k_b", "attn_v_b",   "attn_kv_b", "shortconv.conv", "altup",         "per_layer_token_embd"};

std::string adapter_of(const nlohmann::json& model) {
  test::GgufWriter writer;
  for (const nlohmann::json& entry : model["metadata"]) {
    if (entry[0] == "general.architecture") writer.text("general.architecture", entry[2].get<std::string>());
  }
  writer.text("general.type", "adapter");
  writer.text("adapter.type", "lora");
  writer.f32("adapter.lora.alpha", 1.0F);
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  for (const nlohmann::json& tensor : model["tensors"]) {
    const auto name = tensor["name"].get<std::string>();
    auto shape = tensor["shape"].get<std::vector<uint64_t>>();
    const bool is_other = std::ranges::any_of(
        kOthers, [&](std::string_view other) { return name.find(other) != std::string::npos; });
    if (shape.size() == 1 && name.ends_with("ffn_gate_inp_shexp.weight")) shape.push_back(1);
    if (shape.size() < 2 || !name.ends_with(".weight") || is_other) continue;
    const auto add = [&](const char* part, uint64_t columns, uint64_t rows, double size) {
      std::vector<uint64_t> dims = {columns, rows};
      dims.insert(dims.end(), shape.begin() + 2, shape.end());
      std::vector<float> values(columns * rows * (shape.size() > 2 ? shape[2] : 1));
      for (float& value : values) value = normal(random) * static_cast<float>(size);
      writer.f32_tensor(name + part, dims, values);
    };
    constexpr uint64_t kRank = 2;
    if (name == "token_embd.weight") {
      add(".lora_a", kRank, shape[1], 0.2);
      add(".lora_b", kRank, shape[0], 0.2);
      continue;
    }
    add(".lora_a", shape[0], kRank, 1.0 / std::sqrt(static_cast<double>(shape[0])));
    add(".lora_b", kRank, shape[1], 0.3);
  }
  return writer.file();
}

Result<lora::LoadedAdapter> load(const Checkpoint& checkpoint, const std::filesystem::path& file) {
  return lora::load_adapter({"adapter", file},
                            adapter_targets(checkpoint, read_spec(checkpoint, Runner::kAuto)));
}

class GgufAdaptersOfModels : public testing::TestWithParam<std::string> {};

TEST_P(GgufAdaptersOfModels, ChangeBothFormsOfTheModelAlike) {
  const nlohmann::json golden = test::gguf_goldens("models")[GetParam()];
  const test::TempDir dir;
  dir.write("adapter.gguf", adapter_of(golden));
  const auto original = Checkpoint::open(test::golden_model(GetParam()));
  dir.write("model.gguf", test::make_gguf(golden, *original));
  const auto converted = open_gguf(dir.path() / "model.gguf");
  const auto own = load(*converted, dir.path() / "adapter.gguf");
  ASSERT_TRUE(own.ok()) << own.failure().message;
  const auto of_original = load(*original, dir.path() / "adapter.gguf");
  // Their files have other values than the checkpoints.
  if (GetParam().starts_with("falcon_h1") || GetParam().starts_with("qwen3_5")) {
    ASSERT_FALSE(of_original.ok());
    EXPECT_NE(of_original.failure().message.find("GGUF files have other values here"), std::string::npos);
    return;
  }
  ASSERT_TRUE(of_original.ok()) << of_original.failure().message;
  const std::vector<float> expected = test::logits_of(*converted, own->adapter.get());
  EXPECT_LT(test::error_of(test::logits_of(*original, of_original->adapter.get()), expected), 1e-4);
  EXPECT_GT(test::error_of(test::logits_of(*converted, nullptr), expected), 0.05)
      << "the adapter changes little";
}

std::vector<std::string> models_with_adapters() {
  std::vector<std::string> names = test::gguf_golden_names("models");
  std::erase_if(names, [](const std::string& name) { return name.starts_with("gpt2"); });  // are refused
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, GgufAdaptersOfModels, testing::ValuesIn(models_with_adapters()),
                         [](const auto& test) { return test::test_name(test.param); });

}  // namespace
}  // namespace quire
