// Tokenizers of vocab.json with merges.txt and of vocab.txt give the ids of transformers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/temp_dir.h"
#include "text/tokenizer/tokenizer.h"
#include "unit/text/tokenizer_test_util.h"

namespace quire {
namespace {

using nlohmann::json;

// Writes the vocabulary of a fixture as its older files.
void write_vocabulary(const test::TempDir& dir, const std::string& fixture) {
  const json model = test::read_json(test::fixture_dir() / fixture / "tokenizer.json")["model"];
  if (model["type"] == "WordPiece") {
    std::vector<std::string> tokens(model["vocab"].size());
    for (const auto& [token, id] : model["vocab"].items()) tokens[id.get<size_t>()] = token;
    std::string lines;
    for (const std::string& token : tokens) lines += token + "\n";
    dir.write("vocab.txt", lines);
    return;
  }
  dir.write("vocab.json", model["vocab"].dump());
  std::string lines = "#version: 0.2\n";
  for (const json& merge : model["merges"]) {
    lines += (merge.is_string() ? merge.get<std::string>()
                                : merge[0].get<std::string>() + " " + merge[1].get<std::string>()) +
             "\n";
  }
  dir.write("merges.txt", lines);
}

TEST(VocabFiles, GiveTheIdsOfTransformers) {
  for (const json& item : test::read_json(test::fixture_dir() / "vocab_files.json")) {
    SCOPED_TRACE(item["name"]);
    const test::TempDir dir;
    write_vocabulary(dir, item["source"]);
    dir.write("config.json", item.value("config", json{{"model_type", "llama"}}).dump());
    for (const char* file : {"tokenizer_config", "special_tokens_map", "added_tokens"}) {
      if (item.contains(file)) dir.write(std::string(file) + ".json", item[file].dump());
    }
    const auto tokenizer = Tokenizer::load(dir.path());
    ASSERT_NE(tokenizer, nullptr);
    const auto id = [&](const char* role) {
      return item["roles"][role].is_null() ? std::nullopt : std::optional(item["roles"][role].get<TokenId>());
    };
    EXPECT_EQ(tokenizer->bos_id(), id("bos"));
    EXPECT_EQ(tokenizer->eos_id(), id("eos"));
    EXPECT_EQ(tokenizer->unk_id(), id("unk"));
    EXPECT_EQ(tokenizer->pad_id(), id("pad"));
    for (const json& text : item["texts"]) {
      const auto ids = text["ids"].get<std::vector<TokenId>>();
      EXPECT_EQ(tokenizer->encode(text["text"].get<std::string>(), true), ids) << text["text"];
      EXPECT_EQ(tokenizer->decode(ids, true), text["decoded"].get<std::string>()) << text["text"];
    }
    for (const json& pair : item["pairs"]) {
      const auto ids = pair["ids"].get<std::vector<TokenId>>();
      EXPECT_EQ(
          tokenizer->encode_pair(pair["pair"][0].get<std::string>(), pair["pair"][1].get<std::string>()).ids,
          ids)
          << pair["pair"];
    }
  }
}

TEST(VocabFiles, GiveNoTokenizerOfOtherClasses) {
  const test::TempDir dir;
  write_vocabulary(dir, "byte-level");
  dir.write("config.json", R"({"model_type": "biogpt"})");
  testing::internal::CaptureStderr();
  EXPECT_EQ(Tokenizer::load(dir.path()), nullptr);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("of biogpt is not supported"));
  dir.write("tokenizer_config.json", R"({"tokenizer_class": "CTRLTokenizer"})");
  testing::internal::CaptureStderr();
  EXPECT_EQ(Tokenizer::load(dir.path()), nullptr);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("CTRLTokenizer is not supported"));
}

TEST(VocabFiles, ErrorsNameTheFile) {
  const test::TempDir dir;
  write_vocabulary(dir, "byte-level");
  dir.write("config.json", R"({"model_type": "gpt2"})");
  const auto error = [&] {
    try {
      (void)Tokenizer::load(dir.path());
    } catch (const std::exception& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  dir.write("merges.txt", "#version: 0.2\na b\nabc\n");
  EXPECT_THAT(error(), testing::HasSubstr("merges.txt: model.merges"));
  dir.write("vocab.json", "{\"a\": }");
  EXPECT_THAT(error(), testing::HasSubstr("/vocab.json: line 1"));
}

TEST(VocabFiles, MatchTheOriginalOfQwen2AndBert) {
  const auto shared = test::shared_dir() / "data/tokenizers";
  QUIRE_NEEDS_SHARED(shared);
  for (const auto& [name, model] : {std::pair("qwen2", "qwen2"), std::pair("bert-bge", "bert")}) {
    SCOPED_TRACE(name);
    const test::TempDir dir;
    for (const char* file : {"vocab.json", "merges.txt", "vocab.txt", "tokenizer_config.json"}) {
      if (std::filesystem::exists(shared / name / file))
        dir.write(file, test::read_text(shared / name / file));
    }
    dir.write("config.json", json{{"model_type", model}}.dump());
    const auto tokenizer = Tokenizer::load(dir.path());
    ASSERT_NE(tokenizer, nullptr);
    int seen = 0;
    for (const json& golden : test::read_json(shared / name / "goldens.json")) {
      if (!golden.contains("text")) continue;
      ++seen;
      EXPECT_EQ(tokenizer->encode(golden["text"].get<std::string>(), false),
                golden["ids_no_special"].get<std::vector<TokenId>>())
          << golden["text"];
    }
    EXPECT_GT(seen, 10);
  }
}

}  // namespace
}  // namespace quire
