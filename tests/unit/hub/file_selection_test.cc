#include "hub/file_selection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/hub/hub_testing.h"

namespace quire::hub {
namespace {

using test::error_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

FileSelection select(const std::string& name, const std::vector<std::string>& files) {
  return select_files(*parse_model_name(name), files);
}

TEST(FileSelection, TakesWhatAModelNeedsAndNoDuplicates) {
  const auto selection = select(
      "o/m", {".gitattributes", "README.md", "config.json", "flax_model.msgpack", "generation_config.json",
              "model.safetensors", "onnx/model.onnx", "original/consolidated.00.pth", "pytorch_model.bin",
              "tf_model.h5", "tokenizer.json", "tokenizer_config.json", "vocab.json"});
  EXPECT_THAT(selection.small, ElementsAre("config.json", "generation_config.json", "tokenizer.json",
                                           "tokenizer_config.json"));
  EXPECT_THAT(selection.weights, ElementsAre("model.safetensors"));
  EXPECT_EQ(selection.index, "");
}

TEST(FileSelection, ReadsTheIndexOfShards) {
  const std::vector<std::string> files = {"config.json", "consolidated.safetensors",
                                          "model-00001-of-00002.safetensors",
                                          "model-00002-of-00002.safetensors", "model.safetensors.index.json"};
  const auto selection = select("o/m", files);
  EXPECT_EQ(selection.index, "model.safetensors.index.json");
  EXPECT_THAT(selection.small, UnorderedElementsAre("config.json", "model.safetensors.index.json"));
  EXPECT_THAT(selection.weights, IsEmpty());
  EXPECT_THAT(files_of_index(R"({"weight_map": {"a": "model-00002-of-00002.safetensors",
      "b": "model-00001-of-00002.safetensors", "c": "model-00001-of-00002.safetensors"}})",
                             files),
              ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"));
}

TEST(FileSelection, RejectsAMalformedIndex) {
  const std::vector<std::string> files = {"config.json", "a.safetensors", "sub/b.safetensors"};
  for (const char* json :
       {"", "[]", "{}", R"({"weight_map": {}})", R"({"weight_map": {"a": 1}})",
        R"({"weight_map": {"a": "missing.safetensors"}})", R"({"weight_map": {"a": "../a.safetensors"}})",
        R"({"weight_map": {"a": "sub/b.safetensors"}})"}) {
    EXPECT_THAT(error_of([&] { files_of_index(json, files); }), HasSubstr("index.json")) << json;
  }
}

TEST(FileSelection, TakesTheModulesOfSentenceTransformers) {
  const auto selection =
      select("o/m", {"1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors",
                     "2_Dense/pytorch_model.bin", "config.json", "config_sentence_transformers.json",
                     "model.safetensors", "modules.json", "onnx/config.json", "sentence_bert_config.json"});
  EXPECT_THAT(
      selection.small,
      ElementsAre("1_Pooling/config.json", "2_Dense/config.json", "2_Dense/model.safetensors", "config.json",
                  "config_sentence_transformers.json", "modules.json", "sentence_bert_config.json"));
}

TEST(FileSelection, TakesChatTemplates) {
  const auto selection =
      select("o/m", {"additional_chat_templates/rag.jinja", "additional_chat_templates/x/y.jinja",
                     "chat_template.jinja", "chat_template.json", "config.json", "model.safetensors"});
  EXPECT_THAT(selection.small, ElementsAre("additional_chat_templates/rag.jinja", "chat_template.jinja",
                                           "chat_template.json", "config.json"));
}

const std::vector<std::string> kGguf = {"README.md",
                                        "BF16/m-BF16-00001-of-00002.gguf",
                                        "BF16/m-BF16-00002-of-00002.gguf",
                                        "m-IQ4_XS.gguf",
                                        "m-Q4_K_M.gguf",
                                        "m.Q8_0.gguf",
                                        "mmproj-m-Q8_0.gguf",
                                        "imatrix.gguf"};

TEST(FileSelection, FindsAGgufFileByTag) {
  EXPECT_EQ(select("o/m:Q8_0", kGguf).gguf, "m.Q8_0.gguf");
  EXPECT_EQ(select("o/m:iq4_xs", kGguf).gguf, "m-IQ4_XS.gguf");
  EXPECT_THAT(select("o/m:BF16", kGguf).weights,
              ElementsAre("BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf"));
}

TEST(FileSelection, PrefersQ4KMOfAGgufRepository) {
  EXPECT_EQ(select("o/m", kGguf).gguf, "m-Q4_K_M.gguf");
  EXPECT_EQ(select("o/m", {"only.gguf", "mmproj-only.gguf"}).gguf, "only.gguf");
}

TEST(FileSelection, TakesAllPartsOfANamedGgufFile) {
  const auto selection = select("o/m/BF16/m-BF16-00002-of-00002.gguf", kGguf);
  EXPECT_THAT(selection.weights,
              ElementsAre("BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf"));
  EXPECT_EQ(selection.gguf, "BF16/m-BF16-00001-of-00002.gguf");
}

TEST(FileSelection, ListsTheTagsIfNoneMatches) {
  EXPECT_THAT(error_of([] { select("o/m:Q2_K", kGguf); }),
              AllOf(HasSubstr("no Q2_K file"), HasSubstr("BF16, IQ4_XS, Q4_K_M, Q8_0")));
  EXPECT_THAT(error_of([] { select("o/m/m-Q4_K.gguf", kGguf); }), HasSubstr("similar names: m-Q4_K_M.gguf"));
  EXPECT_THAT(error_of([] { select("o/m", {"a-Q8_0.gguf", "a-Q5_0.gguf"}); }), HasSubstr("o/m:TAG"));
  EXPECT_THAT(error_of([] {
                select("o/m:Q8_0", {"a-Q8_0.gguf", "b-Q8_0.gguf"});
              }),
              HasSubstr("several files match"));
  EXPECT_THAT(error_of([] {
                select("o/m:Q8_0", {"config.json", "model.safetensors"});
              }),
              HasSubstr("no GGUF files"));
}

TEST(FileSelection, RejectsAGgufModelWithMissingParts) {
  EXPECT_THAT(error_of([] {
                select("o/m:Q8_0", {"m-Q8_0-00001-of-00003.gguf", "m-Q8_0-00003-of-00003.gguf"});
              }),
              HasSubstr("is one of 3 files, but the repository has 2"));
}

TEST(FileSelection, ExplainsWhyARepositoryCannotBeUsed) {
  EXPECT_THAT(error_of([] { select("o/m", {"config.json", "pytorch_model.bin"}); }), HasSubstr("pickles"));
  EXPECT_THAT(error_of([] {
                select("o/m", {"adapter_config.json", "adapter_model.bin"});
              }),
              HasSubstr("adapter"));
  EXPECT_THAT(error_of([] { select("o/m", {"README.md"}); }), HasSubstr("no model weights"));
  EXPECT_THAT(error_of([] { select("o/m", {"model.safetensors"}); }), HasSubstr("no config.json"));
  EXPECT_THAT(error_of([] {
                select("o/m", {"config.json", "model-00001-of-00002.safetensors", "other.safetensors"});
              }),
              HasSubstr("shards are missing: model-00002-of-00002.safetensors"));
}

TEST(FileSelection, TakesShardsWithoutAnIndex) {
  EXPECT_THAT(select("o/m", {"config.json", "consolidated.safetensors", "model-00001-of-00002.safetensors",
                             "model-00002-of-00002.safetensors"})
                  .weights,
              testing::ElementsAre("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"));
  EXPECT_THAT(select("o/m", {"config.json", "b.safetensors", "a.safetensors"}).weights,
              testing::ElementsAre("a.safetensors", "b.safetensors"));
}

TEST(FileSelection, TakesVocabularyFilesWithoutATokenizer) {
  const std::vector<std::string> files = {"config.json", "merges.txt", "model.safetensors", "vocab.json"};
  EXPECT_THAT(select("o/m", files).small, testing::ElementsAre("config.json", "merges.txt", "vocab.json"));
  std::vector<std::string> with_tokenizer = files;
  with_tokenizer.emplace_back("tokenizer.json");
  EXPECT_THAT(select("o/m", with_tokenizer).small, testing::ElementsAre("config.json", "tokenizer.json"));
}

}  // namespace
}  // namespace quire::hub
