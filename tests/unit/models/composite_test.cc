// Multimodal models: the language model is read with each of the known prefixes, and the rest is ignored.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/reference.h"
#include "unit/models/edited_checkpoint.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

using testing::HasSubstr;

// A golden model as the language model of a multimodal one: its configuration inside another one, its tensors
// with `prefix` instead of "model.".
test::EditedCheckpoint inside(const char* name, const char* architecture, const std::string& prefix,
                              const std::string& head) {
  test::EditedCheckpoint edited(test::golden_model(name));
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
  const auto golden = read_json_file(test::golden_model(name) / "golden.json")["cases"].back();
  const auto prompt = golden["prompt"].get<std::vector<int32_t>>();
  const auto expected = golden["logits"].get<std::vector<float>>();
  const auto checkpoint = edited.open();
  const auto model = Model::load(*checkpoint, reference_ops(), {}, {}, {});
  const auto logits = test::PagedRunner(*model, reference_ops(), nullptr, {}).append(prompt, 64).back();
  for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 2e-3) << i;
}

TEST(Composite, ReadsTheLanguageModelUnderEachPrefix) {
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

// Other language models than Llama have their own names after the prefix.
TEST(Composite, ReadsTheLanguageModelsOfOtherComposites) {
  auto opt = inside("opt", "Blip2ForConditionalGeneration", "language_model.model.", "language_model.");
  opt.tensors.emplace("qformer.layernorm.weight", test::zeros({3}));
  expect_logits(opt, "opt");
  auto emu = inside("llama-untied", "Emu3ForConditionalGeneration", "text_model.model.", "text_model.");
  expect_logits(emu, "llama-untied");
  auto nemotron = inside("nemotron_h", "NemotronH_Omni_Reasoning_V3", "", "language_model.");
  nemotron.config["llm_config"] = nemotron.config["text_config"];
  nemotron.config.erase("text_config");
  expect_logits(nemotron, "nemotron_h");
  auto ocr = inside("deepseek_ocr2", "DeepseekOCRForCausalLM", "model.", "");
  ocr.config["language_config"] = ocr.config["text_config"]["text_config"];
  ocr.config["language_config"]["use_mla"] = false;
  ocr.config.erase("text_config");
  std::map<std::string, test::EditedTensor> flat;
  for (auto& [name, tensor] : ocr.tensors) {
    constexpr std::string_view kInner = "language_model.";
    const size_t at = name.find(kInner);
    flat.emplace(at == name.npos ? name : name.substr(0, at) + name.substr(at + kInner.size()), tensor);
  }
  ocr.tensors = std::move(flat);
  expect_logits(ocr, "deepseek_ocr2");
}

// Phi-4 multimodal has adapters for other modalities, which are not read.
TEST(Composite, IgnoresAdaptersForOtherModalities) {
  test::EditedCheckpoint edited(test::golden_model("phi3"));
  edited.config["architectures"] = {"Phi4MMForCausalLM"};
  std::map<std::string, test::EditedTensor> tensors;
  for (auto& [name, tensor] : edited.tensors) {
    const size_t end = name.rfind("_proj.weight");
    if (end == name.npos) {
      tensors.emplace(name, std::move(tensor));
      continue;
    }
    const std::string module = name.substr(0, end) + "_proj.";
    tensors.emplace(module + "base_layer.weight", std::move(tensor));
    tensors.emplace(module + "lora_A.vision.weight", test::zeros({2, 3}));
    tensors.emplace(module + "lora_B.speech.weight", test::zeros({3, 2}));
  }
  tensors.emplace("model.embed_tokens_extend.image_embed.glb_GN", test::zeros({1}));
  edited.tensors = std::move(tensors);
  expect_logits(edited, "phi3");
}

// Piece `index` of `count` equal pieces of a tensor along its first dimension.
test::EditedTensor piece(const test::EditedTensor& whole, size_t index, size_t count,
                         std::vector<int64_t> shape) {
  const size_t size = whole.bytes.size() / count;
  test::EditedTensor out = {whole.dtype, std::move(shape), {}};
  const auto begin = whole.bytes.begin() + static_cast<std::ptrdiff_t>(index * size);
  out.bytes.assign(begin, begin + static_cast<std::ptrdiff_t>(size));
  return out;
}

// Published checkpoints have separate experts, separate gate and up matrices and other names, and lists of 0
// and 1 instead of layer types.
TEST(Composite, PublishedFilesOfMiniMaxM3) {
  auto edited = inside("minimax_m3", "MiniMaxM3SparseForConditionalGeneration", "language_model.model.",
                       "language_model.");
  nlohmann::json& text = edited.config["text_config"];
  text["sparse_attention_config"] = {{"sparse_attention_freq", {0, 1, 1}},
                                     {"sparse_num_index_heads", text["index_n_heads"]},
                                     {"sparse_index_dim", text["index_head_dim"]},
                                     {"sparse_block_size", text["index_block_size"]},
                                     {"sparse_topk_blocks", text["index_topk_blocks"]},
                                     {"sparse_local_block", text["index_local_blocks"]}};
  text["moe_layer_freq"] = {0, 1, 1};
  text["hidden_act"] = "swigluoai";
  text["rotary_dim"] = 4;
  text["rope_theta"] = 1e4;
  for (const char* field : {"layer_types", "mlp_layer_types", "index_n_heads", "index_head_dim",
                            "index_block_size", "index_topk_blocks", "index_local_blocks", "rope_parameters"})
    text.erase(field);
  std::map<std::string, test::EditedTensor> published;
  const auto add = [&](std::string name, test::EditedTensor tensor) {
    constexpr std::pair<std::string_view, std::string_view> kNames[] = {
        {".mlp.gate.e_score", ".block_sparse_moe.e_score"},
        {".mlp.gate.", ".block_sparse_moe.gate."},
        {".mlp.shared", ".block_sparse_moe.shared"},
        {".mlp.experts", ".block_sparse_moe.experts"},
        {".indexer.", ".index_"}};
    for (const auto& [from, to] : kNames) {
      if (const size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
    }
    EXPECT_TRUE(published.emplace(name, std::move(tensor)).second) << name;
  };
  for (const auto& [name, tensor] : edited.tensors) {
    const size_t end = name.rfind("gate_up_proj");
    const size_t down = name.rfind("down_proj");
    if (name.find(".experts.") != std::string::npos) {
      const auto experts = static_cast<size_t>(tensor.shape[0]);
      const bool gated = end != std::string::npos;
      const std::vector<int64_t> shape = {tensor.shape[1] / (gated ? 2 : 1), tensor.shape[2]};
      for (size_t e = 0; e < experts; ++e) {
        const std::string expert = name.substr(0, gated ? end : down) + std::to_string(e);
        if (gated) {
          add(expert + ".w1.weight", piece(tensor, 2 * e, 2 * experts, shape));
          add(expert + ".w3.weight", piece(tensor, 2 * e + 1, 2 * experts, shape));
        } else {
          add(expert + ".w2.weight", piece(tensor, e, experts, shape));
        }
      }
    } else if (end != std::string::npos) {
      const std::vector<int64_t> shape = {tensor.shape[0] / 2, tensor.shape[1]};
      add(name.substr(0, end) + "gate_proj.weight", piece(tensor, 0, 2, shape));
      add(name.substr(0, end) + "up_proj.weight", piece(tensor, 1, 2, shape));
    } else {
      add(name, tensor);
    }
  }
  edited.tensors = std::move(published);
  expect_logits(edited, "minimax_m3");
}

// Qwen3-VL's experts are stored as [experts, in, out].
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

// Qwen Omni: the thinker generates text, the talker generates speech.
TEST(Composite, ReadsTheThinkerOfQwenOmni) {
  auto edited = inside("qwen3_moe", "Qwen3OmniMoeForConditionalGeneration", "thinker.model.", "thinker.");
  edited.config["thinker_config"] = {{"text_config", edited.config["text_config"]}};
  edited.config.erase("text_config");
  edited.tensors.emplace("talker.model.layers.0.mlp.up_proj.weight", test::zeros({3, 4}));
  edited.tensors.emplace("thinker.audio_tower.layers.0.fc1.weight", test::zeros({3, 4}));
  expect_logits(edited, "qwen3_moe");
}

// The first checkpoints of Qwen2.5-VL have one flat configuration, the language model next to the vision
// tower, and M-RoPE, whose three positions are the same in text.
TEST(Composite, AcceptsFlatConfigurationsAndNames) {
  test::EditedCheckpoint edited(test::golden_model("qwen2"));
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

TEST(Composite, UsesTheModelTypeOfTheTextConfig) {
  auto edited = inside("qwen3", "LlavaForConditionalGeneration", "model.language_model.", "");
  expect_logits(edited, "qwen3");
}

}  // namespace
}  // namespace quire
