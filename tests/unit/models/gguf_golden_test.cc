// GGUF files as llama.cpp's converter writes them, against the results of transformers with the original
// models. tests/golden/gguf/models.json describes the conversion of tests/golden/models.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "io/gguf/gguf_checkpoint.h"
#include "ops/reference.h"
#include "unit/io/gguf_writer.h"
#include "unit/models/gguf_goldens.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

using nlohmann::json;

const json& all_models() {
  static const json models = test::gguf_goldens("models");
  return models;
}

std::string make_gguf(const std::string& name, bool experts_apart = false) {
  return test::make_gguf(all_models()[name], test::golden_model(name), experts_apart);
}

class GgufGolden : public testing::TestWithParam<std::string> {};

TEST_P(GgufGolden, EqualsTransformers) {
  const std::string file = make_gguf(GetParam());
  test::expect_golden(GetParam(), reference_ops(), [&] {
    return gguf_from_memory(std::as_bytes(std::span(file.data(), file.size())), GetParam() + ".gguf");
  });
}

INSTANTIATE_TEST_SUITE_P(All, GgufGolden, testing::ValuesIn(test::gguf_golden_names("models")),
                         [](const auto& test) { return test::test_name(test.param); });

// A reader of config.json does not know the file that its fields come from.
TEST(GgufErrors, NameTheFileAndTheKeyOfTheMetadata) {
  const auto error = [](const std::function<void(test::GgufWriter&)>& set) {
    test::GgufWriter w;
    w.text("general.architecture", "llama");
    for (const auto& [key, value] : std::map<std::string, uint32_t>{{"block_count", 1},
                                                                    {"context_length", 64},
                                                                    {"embedding_length", 8},
                                                                    {"feed_forward_length", 6},
                                                                    {"attention.head_count", 2}})
      w.u32("llama." + key, value);
    w.f32_tensor("token_embd.weight", {8, 5}, std::vector<float>(40));
    set(w);
    const std::string file = w.file();
    const auto checkpoint = gguf_from_memory(std::as_bytes(std::span(file.data(), file.size())), "m.gguf");
    try {
      (void)parse_checkpoint(*checkpoint);
    } catch (const std::exception& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  EXPECT_TRUE(error([](auto& w) {
                w.text("llama.rope.scaling.type", "warp");
                w.f32("llama.rope.scaling.factor", 2.0F);
              }).starts_with("m.gguf: metadata 'llama.rope.scaling.type' is 'warp'"));
  EXPECT_TRUE(error([](auto& w) {
                w.f32("llama.rope.freq_base", 0.5F);
              }).starts_with("m.gguf: metadata 'llama.rope.freq_base' is 0.5, but"));
  EXPECT_TRUE(error([](auto& w) {
                w.f32("llama.attention.layer_norm_rms_epsilon", -1.0F);
              }).starts_with("m.gguf: metadata 'llama.attention.layer_norm_rms_epsilon' is -1"));
}

// Lists by layer in a file include the layers for multi-token prediction.
TEST(GgufLayers, MultiTokenPredictionLayersAreIgnored) {
  json model = all_models()["mimo_v2_flash"];
  for (json& entry : model["metadata"]) {
    const auto key = entry[0].get<std::string>();
    if (key == "mimo2.block_count") entry[2] = 6;
    if (key == "mimo2.attention.head_count_kv") entry[2] = {1, 2, 2, 2, 2, 2};
    if (key == "mimo2.attention.sliding_window_pattern") entry[2] = {0, 1, 1, 1, 1, 1};
  }
  model["metadata"].push_back({"mimo2.nextn_predict_layers", {"UINT32"}, 2});
  const std::string file = test::make_gguf(model, test::golden_model("mimo_v2_flash"));
  test::expect_golden("mimo_v2_flash", reference_ops(), [&] {
    return gguf_from_memory(std::as_bytes(std::span(file.data(), file.size())), "mimo.gguf");
  });
}

// GLM-5.2's files list the layers with an indexer. In other files these are the layers with its tensors.
TEST(GgufIndexer, FindsLayersWithIndexersByTheirTensors) {
  json model = all_models()["glm_moe_dsa"];
  std::erase_if(model["metadata"].get_ref<json::array_t&>(),
                [](const json& entry) { return entry[0] == "glm-dsa.attention.indexer.types"; });
  const std::string file = test::make_gguf(model, test::golden_model("glm_moe_dsa"));
  test::expect_golden("glm_moe_dsa", reference_ops(), [&] {
    return gguf_from_memory(std::as_bytes(std::span(file.data(), file.size())), "glm.gguf");
  });
}

// GGUF architectures that are another architecture with a vision part, or with another name.
TEST(GgufNames, AcceptsTheArchitecturesOfVisionModels) {
  struct Renamed {
    const char* model;
    std::string from, to;
  };
  for (const Renamed& row :
       {Renamed{"granite", "granite", "minicpm"}, Renamed{"qwen2", "qwen2", "qwen2vl"},
        Renamed{"qwen3", "qwen3", "qwen3vl"}, Renamed{"qwen3_moe", "qwen3moe", "qwen3vlmoe"}}) {
    json model = all_models()[row.model];
    for (json& entry : model["metadata"]) {
      const auto key = entry[0].get<std::string>();
      if (key == "general.architecture") entry[2] = row.to;
      if (key.starts_with(row.from + ".")) entry[0] = row.to + key.substr(row.from.size());
    }
    const std::string file = test::make_gguf(model, test::golden_model(row.model));
    test::expect_golden(row.model, reference_ops(), [&] {
      return gguf_from_memory(std::as_bytes(std::span(file.data(), file.size())), row.to + ".gguf");
    });
  }
}

TEST(GgufExperts, MayHaveATensorEach) {
  const std::string file = make_gguf("mixtral", true);
  test::expect_golden("mixtral", reference_ops(), [&] {
    return gguf_from_memory(std::as_bytes(std::span(file.data(), file.size())), "mixtral.gguf");
  });
}

// A golden model with other sizes and random values that Q8_0 represents exactly.
struct Resized {
  const char* model;
  std::map<std::string, uint32_t> metadata;             // by key without the architecture
  std::map<std::string, std::vector<uint64_t>> shapes;  // by module name without the layer
  std::set<std::string> quantized;                      // modules with Q8_0 weights
};

// "blk.0.attn_q.weight" -> "attn_q".
std::string module_of(const std::string& name) {
  const std::string module = name.substr(0, name.rfind('.'));
  return module.starts_with("blk.") ? module.substr(module.find('.', 4) + 1) : module;
}

std::string make_resized(const Resized& resized) {
  const json& model = all_models()[resized.model];
  test::GgufWriter writer;
  for (const json& entry : model["metadata"]) {
    const auto key = entry[0].get<std::string>();
    const auto size = resized.metadata.find(key.substr(key.find('.') + 1));
    writer.json(key, entry[1].get<std::vector<std::string>>(),
                size == resized.metadata.end() ? entry[2] : json(size->second));
  }
  std::mt19937 random(7);
  std::uniform_int_distribution<int> numbers(-127, 127);
  constexpr float kScale = 1.0F / 512.0F;
  for (const json& tensor : model["tensors"]) {
    const auto name = tensor["name"].get<std::string>();
    const auto other = resized.shapes.find(module_of(name));
    auto shape = tensor["shape"].get<std::vector<uint64_t>>();
    if (other != resized.shapes.end())
      shape.assign(other->second.begin() + (name.ends_with(".bias") ? 1 : 0), other->second.end());
    const uint64_t count = std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
    const bool codes = name.ends_with(".weight") && resized.quantized.contains(module_of(name));
    std::string bytes;
    for (uint64_t i = 0; i < count; ++i) {
      const int number = numbers(random);
      if (codes && i % 32 == 0) bytes += test::GgufWriter::raw(f32_to_f16(kScale));
      bytes += codes ? test::GgufWriter::raw(static_cast<int8_t>(number))
                     : test::GgufWriter::raw(static_cast<float>(number) * kScale);
    }
    writer.tensor(name, shape, find_ggml_type(codes ? "Q8_0" : "F32")->id, bytes);
  }
  return writer.file();
}

// Expects the same results from the quantized weights and from their values as floats.
void expect_the_same_as_codes(Resized resized) {
  const auto logits = [&] {
    const std::string file = make_resized(resized);
    const auto loaded = test::load_model(
        gguf_from_memory(std::as_bytes(std::span(file.data(), file.size())), "made.gguf"), reference_ops());
    test::PagedRunner runner(*loaded.model, reference_ops(), nullptr, {});
    const std::vector<int32_t> prompt = {1, 5, 9, 33, 2};
    return runner.append(prompt, 5).back();
  };
  const auto from_codes = logits();
  resized.quantized.clear();
  const auto from_floats = logits();
  ASSERT_EQ(from_codes.size(), from_floats.size());
  for (size_t i = 0; i < from_codes.size(); ++i)
    ASSERT_NEAR(from_codes[i], from_floats[i], 1e-5F * (1.0F + std::abs(from_floats[i])));
}

TEST(GgufCodes, HeadsOfLatentAttention) {
  expect_the_same_as_codes({.model = "deepseek_v2",
                            .metadata = {{"attention.key_length", 36},
                                         {"attention.value_length", 32},
                                         {"attention.kv_lora_rank", 32},
                                         {"attention.key_length_mla", 36},
                                         {"attention.value_length_mla", 32}},
                            .shapes = {{"attn_kv_a_norm", {32}},
                                       {"attn_kv_a_mqa", {24, 36}},
                                       {"attn_k_b", {32, 32, 4}},
                                       {"attn_v_b", {32, 32, 4}},
                                       {"attn_output", {128, 24}},
                                       {"attn_q", {24, 144}}},
                            .quantized = {"attn_k_b", "attn_v_b"}});
}

TEST(GgufCodes, ExpertsWithBiases) {
  std::map<std::string, std::vector<uint64_t>> shapes = {
      {"token_embd", {32, 96}},      {"output", {32, 96}},           {"output_norm", {32}},
      {"attn_norm", {32}},           {"post_attention_norm", {32}},  {"attn_q", {32, 32}},
      {"attn_k", {32, 16}},          {"attn_v", {32, 16}},           {"attn_output", {32, 32}},
      {"ffn_gate_inp", {32, 4}},     {"ffn_gate_exps", {32, 64, 4}}, {"ffn_up_exps", {32, 64, 4}},
      {"ffn_down_exps", {64, 32, 4}}};
  expect_the_same_as_codes({.model = "gpt_oss",
                            .metadata = {{"embedding_length", 32},
                                         {"feed_forward_length", 64},
                                         {"expert_feed_forward_length", 64}},
                            .shapes = std::move(shapes),
                            .quantized = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}});
}

TEST(GgufStories260K, GreedyTokensAreExact) {
  const auto file = test::shared_dir() / "data/models/stories260K.gguf";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " does not exist: stories260K.gguf was not run";
  test::expect_stories(reference_ops(), file);
}

}  // namespace
}  // namespace quire
