#include "engine/bundle.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "support/golden_checkpoint.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

class BundleTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() / ("quire_bundle_" + std::to_string(::getpid()));
    fs::create_directories(dir_ / "model");
    write("model/config.json", "{\"a\": 1}");
    write("model/tokenizer.json", std::string(1000, 't'));
    write("model/model.safetensors", std::string(5000, 'w'));
    write("model/notes.txt", "not for the bundle");
  }
  void TearDown() override { fs::remove_all(dir_); }

  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(dir_ / name, std::ios::binary) << bytes;
  }
  std::string read(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string make(const std::string& executable) {
    write_bundle(dir_ / "out", executable, "my-model", bundle_files(dir_ / "model"));
    return read(dir_ / "out");
  }
  fs::path dir_;
};

TEST_F(BundleTest, ReadsFilesAppendedToAnExecutable) {
  const std::string image = make("#!executable");
  const auto bundle = find_bundle(image, "test");
  ASSERT_TRUE(bundle.has_value());
  EXPECT_EQ(bundle->model_name, "my-model");
  EXPECT_EQ(bundle->files.size(), 3U);
  EXPECT_EQ(bundle->file("config.json"), "{\"a\": 1}");
  EXPECT_EQ(bundle->file("model.safetensors"), std::string(5000, 'w'));
  EXPECT_EQ(bundle->file("notes.txt"), "");
  for (const auto& file : bundle->files) EXPECT_EQ((file.bytes.data() - image.data()) % 64, 0) << file.name;
}

TEST_F(BundleTest, ContainsThePoolingModulesOfAnEmbeddingModel) {
  write("model/modules.json",
        R"([{"path": ""}, {"path": "1_Pooling"}, {"path": "2_Dense"}, {"path": "../x"}])");
  fs::create_directories(dir_ / "model/1_Pooling");
  fs::create_directories(dir_ / "model/2_Dense");
  fs::create_directories(dir_ / "model/onnx");
  write("model/1_Pooling/config.json", "{\"pool\": 1}");
  write("model/2_Dense/config.json", "{\"dense\": 2}");
  write("model/2_Dense/model.safetensors", "dense weights");
  write("model/onnx/config.json", "not for the bundle");
  const std::string image = make("");
  const auto bundle = find_bundle(image, "test");
  ASSERT_TRUE(bundle.has_value());
  EXPECT_EQ(bundle->file("1_Pooling/config.json"), "{\"pool\": 1}");
  EXPECT_EQ(bundle->file("2_Dense/model.safetensors"), "dense weights");
  EXPECT_EQ(bundle->file("model.safetensors"), std::string(5000, 'w'));
  EXPECT_NE(bundle->file("modules.json"), "");
  EXPECT_EQ(bundle->files.size(), 7U);
}

TEST_F(BundleTest, FindsTheSizeWithoutTheBundle) {
  const std::string executable(10000, 'x');
  const std::string image = make(executable);
  const std::string_view without = std::string_view(image).substr(0, size_without_bundle(image, "test"));
  EXPECT_EQ(without.substr(0, executable.size()), executable);
  EXPECT_FALSE(find_bundle(without, "test").has_value());
  EXPECT_EQ(size_without_bundle(executable, "test"), executable.size());
}

TEST_F(BundleTest, RejectsDamagedBundles) {
  const std::string image = make("exe");
  for (size_t cut = 1; cut < 64; ++cut) {
    std::string damaged = image;
    damaged[damaged.size() - cut] = static_cast<char>(damaged[damaged.size() - cut] ^ 0x5a);
    try {
      (void)find_bundle(damaged, "test");
    } catch (const Error&) {
    }
  }
  std::string sizes = image;
  sizes[sizes.size() - 32 + 7] = '\x7f';  // payload of 2^62 bytes
  EXPECT_THROW((void)find_bundle(sizes, "test"), Error);
}

TEST_F(BundleTest, ContainsOnlyTheShardsOfTheIndex) {
  const fs::path model = test::golden_checkpoint("models/llama-sharded");
  fs::copy(model, dir_ / "sharded");
  std::ofstream(dir_ / "sharded/consolidated.safetensors") << "a copy of the weights";
  const auto files = bundle_files(dir_ / "sharded");
  const auto shards = std::count_if(files.begin(), files.end(),
                                    [](const fs::path& f) { return f.extension() == ".safetensors"; });
  EXPECT_EQ(shards, 3);
}

TEST_F(BundleTest, RejectsAModelWithoutWeights) {
  fs::remove(dir_ / "model/model.safetensors");
  EXPECT_THROW((void)bundle_files(dir_ / "model"), Error);
}

TEST_F(BundleTest, WritesNothingIfAFileIsMissing) {
  EXPECT_THROW(write_bundle(dir_ / "out2", "", "m", {dir_ / "model/absent"}), Error);
  EXPECT_FALSE(fs::exists(dir_ / "out2"));
  EXPECT_FALSE(fs::exists(dir_ / "out2.partial"));
}

}  // namespace
}  // namespace quire
