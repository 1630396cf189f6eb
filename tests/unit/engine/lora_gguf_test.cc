// Adapters in GGUF files, as llama.cpp's converter makes them from adapters of PEFT: they have the outputs of
// PEFT, on a base from Hugging Face and on one in a GGUF file.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "io/json_file.h"
#include "unit/engine/lora_testing.h"
#include "unit/models/gguf_goldens.h"

namespace quire {
namespace {

using test::adapter_path;
using test::Answer;
using testing::HasSubstr;

std::string contents_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

// The file of a golden adapter.
std::string adapter_file(const std::string& name) {
  const std::string weights = contents_of(adapter_path(name) / "adapter_model.safetensors");
  const auto source = Checkpoint::from_memory({.name = name,
                                               .config = "{}",
                                               .generation_config = {},
                                               .safetensors = std::as_bytes(std::span(weights)),
                                               .more_safetensors = {},
                                               .files = {},
                                               .weight_files = {}});
  return test::make_gguf(test::gguf_goldens("adapters")[name], *source);
}

std::string model_of(const std::string& adapter) {
  return read_json_file(adapter_path(adapter) / "golden.json")["model"].get<std::string>();
}

void expect_outputs_of_peft(Engine& engine, const std::string& adapter) {
  const nlohmann::json file = read_json_file(adapter_path(adapter) / "golden.json");
  for (const auto& golden : file.at("cases")) {
    Request request = test::lora_request(golden["prompt"].get<std::vector<TokenId>>(), adapter,
                                         static_cast<int32_t>(golden["greedy"].size()));
    request.sampling.edit().logprobs = 0;
    request.sampling.edit().prompt_logprobs = 0;
    const Answer answer = test::ask(engine, request);
    EXPECT_EQ(answer.samples.at(0).tokens, golden["greedy"].get<std::vector<TokenId>>());
    const auto expected = golden["logprobs"].get<std::vector<double>>();
    ASSERT_EQ(answer.prompt_logprobs.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(answer.prompt_logprobs[i].chosen.logprob, expected[i], 1e-4 - 2e-5 * expected[i])
          << "position " << i + 1;
  }
}

class GgufAdapters : public testing::TestWithParam<std::string> {};

TEST_P(GgufAdapters, HaveTheOutputsOfPeft) {
  const test::TempDir dir;
  dir.write("adapter.gguf", adapter_file(GetParam()));
  EngineConfig config = test::lora_config(model_of(GetParam()));
  config.lora_modules = {{GetParam(), (dir.path() / "adapter.gguf").string()}};
  expect_outputs_of_peft(*Engine::start(config), GetParam());
}

std::string adapter_label(const testing::TestParamInfo<std::string>& test) {
  std::string name = test.param;
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, GgufAdapters, testing::ValuesIn(test::gguf_golden_names("adapters")),
                         adapter_label);

class GgufAdaptersOfGgufModels : public testing::TestWithParam<std::string> {};

TEST_P(GgufAdaptersOfGgufModels, HaveTheOutputsOfPeft) {
  const std::string model = model_of(GetParam());
  const nlohmann::json models = test::gguf_goldens("models");
  const test::TempDir dir;
  dir.write("adapter.gguf", adapter_file(GetParam()));
  dir.write("model.gguf", test::make_gguf(models[model], test::golden_checkpoint("models/" + model)));
  EngineConfig config = test::lora_config(model);
  config.model = (dir.path() / "model.gguf").string();
  config.lora_modules = {{GetParam(), (dir.path() / "adapter.gguf").string()}};
  expect_outputs_of_peft(*Engine::start(config), GetParam());
}

// Adapters of models that the converter supports too.
std::vector<std::string> adapters_of_gguf_models() {
  const nlohmann::json models = test::gguf_goldens("models");
  std::vector<std::string> names = test::gguf_golden_names("adapters");
  std::erase_if(names, [&](const std::string& name) { return !models.contains(model_of(name)); });
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, GgufAdaptersOfGgufModels, testing::ValuesIn(adapters_of_gguf_models()),
                         adapter_label);

TEST(LoraDirectory, HasGgufFilesAndDirectoriesWithOne) {
  const test::TempDir dir;
  const std::string file = adapter_file("qwen3-all-linear");
  dir.write("file.gguf", file);
  std::filesystem::create_directory(dir.path() / "directory");
  dir.write("directory/any.gguf", file);
  EngineConfig config = test::lora_config("qwen3");
  config.lora_dir = dir.path().string();
  const auto engine = Engine::start(config);
  EXPECT_TRUE(engine->require_adapter("file").ok());
  EXPECT_TRUE(engine->require_adapter("directory").ok());
  EXPECT_FALSE(engine->require_adapter("any").ok());
  const std::vector<TokenId> prompt = {5, 6, 7};
  EXPECT_EQ(test::tokens_with(*engine, prompt, "file"), test::tokens_with(*engine, prompt, "directory"));
  EXPECT_NE(test::tokens_with(*engine, prompt, "file"), test::tokens_with(*engine, prompt, ""));
}

TEST(LoraDirectory, HasNoLinksToGgufFilesOutsideOfIt) {
  const test::TempDir dir;
  const test::TempDir outside;
  outside.write("file.gguf", adapter_file("qwen3-all-linear"));
  std::filesystem::create_symlink(outside.path() / "file.gguf", dir.path() / "link.gguf");
  EngineConfig config = test::lora_config("qwen3");
  config.lora_dir = dir.path().string();
  const auto engine = Engine::start(config);
  const Status refused = engine->require_adapter("link");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.failure().kind, ErrorKind::kNotFound);
}

TEST(AdapterFiles, AreNotModels) {
  const test::TempDir dir;
  dir.write("adapter.gguf", adapter_file("qwen3-all-linear"));
  EngineConfig config = test::lora_config("qwen3");
  config.model = (dir.path() / "adapter.gguf").string();
  try {
    Engine::start(config);
    ADD_FAILURE() << "it was started";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("is an adapter (LoRA)"));
  }
}

}  // namespace
}  // namespace quire
