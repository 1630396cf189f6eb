// The text part of models that also see or hear: read under each of the names it goes by, the rest left
// alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/reference.h"
#include "unit/models/edited_checkpoint.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

using testing::HasSubstr;

// A golden text model inside another one's configuration, its tensors under `prefix` in place of "model.".
test::EditedCheckpoint inside(const char* name, const char* architecture, const std::string& prefix,
                              const std::string& head) {
  test::EditedCheckpoint edited(test::golden_dir() / name);
  nlohmann::json text = edited.config;
  text.erase("architectures");
  edited.config = {{"architectures", {architecture}}, {"model_type", "composite"}, {"text_config", text}};
  std::map<std::string, test::EditedTensor> tensors;
  for (auto& [tensor, content] : edited.tensors) {
    const bool of_model = tensor.starts_with("model.");
    tensors.emplace(of_model ? prefix + tensor.substr(6) : head + tensor, std::move(content));
  }
  tensors.emplace("vision_tower.blocks.0.attn.qkv.weight", test::zeros({3, 4}));
  tensors.emplace("model.multi_modal_projector.linear_1.bias", test::zeros({3}));
  edited.tensors = std::move(tensors);
  return edited;
}

void expect_logits(test::EditedCheckpoint& edited, const char* name) {
  const auto golden = read_json_file(test::golden_dir() / name / "golden.json")["cases"].back();
  const auto prompt = golden["prompt"].get<std::vector<int32_t>>();
  const auto expected = golden["logits"].get<std::vector<float>>();
  const auto checkpoint = edited.open();
  const auto model = Model::load(*checkpoint, reference_ops(), {}, {}, {});
  const auto logits = test::PagedRunner(*model, reference_ops(), nullptr, {}).append(prompt, 64).back();
  for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 2e-3) << i;
}

TEST(Composite, TextIsReadUnderEachPrefix) {
  auto gemma = inside("gemma3", "Gemma3ForConditionalGeneration", "language_model.model.", "language_model.");
  expect_logits(gemma, "gemma3");
  auto llava =
      inside("llama-untied", "LlavaForConditionalGeneration", "language_model.model.", "language_model.");
  expect_logits(llava, "llama-untied");
  auto mistral = inside("mistral", "Mistral3ForConditionalGeneration", "model.language_model.", "");
  expect_logits(mistral, "mistral");
  auto qwen = inside("qwen3_5", "Qwen3_5ForConditionalGeneration", "model.language_model.", "");
  qwen.tensors.emplace("mtp.layers.0.mlp.up_proj.weight", test::zeros({3, 4}));
  expect_logits(qwen, "qwen3_5");
  auto moe = inside("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "model.language_model.", "");
  expect_logits(moe, "qwen3_5_moe");
}

// Experts of Qwen3-VL's files are stored [experts, in, out].
TEST(Composite, ExpertsMayBeTransposed) {
  auto edited = inside("mixtral-stacked", "Qwen3VLMoeForConditionalGeneration", "model.language_model.", "");
  int turned = 0;
  for (auto& [name, tensor] : edited.tensors) {
    if (name.find(".mlp.experts.") == std::string::npos) continue;
    tensor = test::transposed(tensor);
    ++turned;
  }
  EXPECT_GT(turned, 0);
  expect_logits(edited, "mixtral-stacked");
}

// One model thinks, another one speaks what it thought.
TEST(Composite, TheThinkersTextIsRead) {
  auto edited = inside("qwen3_moe", "Qwen3OmniMoeForConditionalGeneration", "thinker.model.", "thinker.");
  edited.config["thinker_config"] = {{"text_config", edited.config["text_config"]}};
  edited.config.erase("text_config");
  edited.tensors.emplace("talker.model.layers.0.mlp.up_proj.weight", test::zeros({3, 4}));
  edited.tensors.emplace("thinker.audio_tower.layers.0.fc1.weight", test::zeros({3, 4}));
  expect_logits(edited, "qwen3_moe");
}

// As Qwen2.5-VL's first checkpoints are: one configuration for all, text beside the vision tower, positions
// of three kinds that are one in text.
TEST(Composite, ConfigurationAndNamesMayBeFlat) {
  test::EditedCheckpoint edited(test::golden_dir() / "qwen2");
  edited.config["architectures"] = {"Qwen2_5_VLForConditionalGeneration"};
  edited.config["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {1, 1, 2}}};
  edited.config["vision_config"] = {{"depth", 2}};
  edited.tensors.emplace("visual.blocks.0.norm1.weight", test::zeros({3}));
  expect_logits(edited, "qwen2");
  edited.tensors.emplace("model.layers.0.self_attn.q_proj.extra", test::zeros({3}));
  EXPECT_THROW(
      {
        try {
          expect_logits(edited, "qwen2");
        } catch (const Error& e) {
          EXPECT_THAT(e.what(), HasSubstr("surplus: model.layers.0.self_attn.q_proj.extra"));
          throw;
        }
      },
      Error);
}

TEST(Composite, TheTextsOwnTypeSaysWhatItIs) {
  auto edited = inside("qwen3", "LlavaForConditionalGeneration", "model.language_model.", "");
  expect_logits(edited, "qwen3");
}

}  // namespace
}  // namespace quire
