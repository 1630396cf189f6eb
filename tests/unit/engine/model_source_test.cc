#include "engine/model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/model_fetch.h"
#include "unit/io/gguf_writer.h"
#include "unit/io/io_test_util.h"

namespace quire {
namespace {

using testing::HasSubstr;

std::string tiny_gguf(bool with_tokenizer) {
  test::GgufWriter w;
  w.text("general.architecture", "llama");
  for (const char* key : {"block_count", "attention.head_count", "attention.head_count_kv"})
    w.u32(std::string("llama.") + key, 1);
  w.u32("llama.context_length", 64);
  w.u32("llama.embedding_length", 4);
  w.u32("llama.feed_forward_length", 8);
  if (with_tokenizer) {
    w.text("tokenizer.ggml.model", "llama");
    w.texts("tokenizer.ggml.tokens", {"<unk>", "a"});
    w.numbers<float>("tokenizer.ggml.scores", GgufType::kF32, {0, 0});
    w.numbers<int32_t>("tokenizer.ggml.token_type", GgufType::kI32, {2, 1});
  }
  w.f32_tensor("token_embd.weight", {4, 2}, std::vector<float>(8, 1.0F));
  return w.file();
}

TEST(ModelSource, NamesAModelAfterItsGgufFile) {
  const test::TempDir dir;
  const auto file = dir.write("nice-Q8_0.gguf", tiny_gguf(true));
  const ModelSource source = ModelSource::resolve(file.string());
  EXPECT_EQ(source.name(), "nice-Q8_0");
  EXPECT_FALSE(source.embedded());
  EXPECT_EQ(source.open_checkpoint()->config()["vocab_size"], 2);
  ASSERT_NE(source.open_tokenizer(), nullptr);
  EXPECT_EQ(source.open_tokenizer()->vocab_size(), 2U);
}

TEST(ModelSource, LoadsADirectoryWithOneGgufFile) {
  const test::TempDir dir;
  dir.write("some.gguf", tiny_gguf(false));
  dir.write("mmproj-some.gguf", "vision");
  const ModelSource source = ModelSource::resolve(dir.path().string());
  EXPECT_EQ(source.name(), dir.path().filename().string());
  EXPECT_EQ(source.open_checkpoint()->config()["vocab_size"], 2);
  EXPECT_EQ(source.open_tokenizer(), nullptr);
  // tokenizer.json next to the file takes precedence.
  dir.write("tokenizer.json", R"({"model": {"type": "WordLevel", "vocab": {"a": 0, "b": 1, "c": 2}}})");
  EXPECT_EQ(source.open_tokenizer()->vocab_size(), 3U);
}

TEST(ModelSource, NamesASnapshotOfTheCacheAfterItsRepository) {
  const test::TempDir dir;
  const auto name_of = [&](const std::string& directory) {
    std::filesystem::create_directories(dir.path() / directory);
    dir.write(directory + "/some.gguf", tiny_gguf(false));
    return ModelSource::resolve((dir.path() / directory).string()).name();
  };
  EXPECT_EQ(name_of("models--org--nice-1.5/snapshots/0123"), "org/nice-1.5");
  EXPECT_EQ(name_of("models--org/snapshots/0123"), "0123");
  EXPECT_EQ(name_of("models--org--nice/0123"), "0123");
}

TEST(ModelSource, RejectsPathsThatAreNotModels) {
  const test::TempDir dir;
  EXPECT_THAT(test::error_of([&] { ModelSource::resolve((dir.path() / "none").string()); }),
              HasSubstr("no such directory or file"));
  const auto file = dir.write("notes.txt", "no model");
  EXPECT_THAT(test::error_of([&] { ModelSource::resolve(file.string()).open_checkpoint(); }),
              HasSubstr("not a GGUF file; pass a .gguf file or a directory"));
}

TEST(ModelSource, SuggestsSimilarPaths) {
  const test::TempDir dir;
  dir.write("model.gguf", "");
  EXPECT_EQ(similar_paths_text((dir.path() / "modle.gguf").string()),
            "; did you mean " + (dir.path() / "model.gguf").string() + "?");
  EXPECT_EQ(similar_paths_text((dir.path() / "notes.bin").string()), "");
  EXPECT_EQ(similar_paths_text((dir.path() / "none" / "model.gguf").string()), "");
  EXPECT_THAT(test::error_of([&] { ModelSource::resolve((dir.path() / "modle.gguf").string()); }),
              HasSubstr("did you mean"));
}

TEST(ModelSource, LoadsAGgufFileFromABundle) {
  const test::TempDir dir;
  const auto file = dir.write("some.gguf", tiny_gguf(true));
  EXPECT_THAT(bundle_files(file), testing::ElementsAre(file));
  EXPECT_THAT(bundle_files(dir.path()), testing::ElementsAre(file));
  dir.write("other.gguf", tiny_gguf(true));
  EXPECT_THAT(test::error_of([&] { bundle_files(dir.path()); }), HasSubstr("several GGUF models"));
}

}  // namespace
}  // namespace quire
