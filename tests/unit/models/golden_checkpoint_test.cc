// The generator of the golden weights. tests/e2e/test_golden_weights.py has the same values for the generator
// in Python.
#include "support/golden_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "io/checkpoint.h"
#include "io/json_file.h"
#include "quant/codec.h"
#include "support/crc32.h"

namespace quire::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;

// The tensors of a description with seed 7.
class Drawn {
 public:
  explicit Drawn(const char* tensors)
      : file_(golden_weights_file(7, nlohmann::json::parse(tensors))),
        checkpoint_(Checkpoint::from_memory({"drawn", "{}", "", std::as_bytes(std::span(file_))})) {}

  std::vector<std::string> names() const { return checkpoint_->names(); }
  std::vector<float> floats(const std::string& name) const {
    const TensorInfo& info = *checkpoint_->find(name);
    size_t count = 1;
    for (const int64_t dim : info.shape) count *= static_cast<size_t>(dim);
    std::vector<float> values(count);
    decode_f32(info.dtype, checkpoint_->bytes(name).data(), values.data(), static_cast<int64_t>(count));
    return values;
  }
  std::span<const std::byte> bytes(const std::string& name) const { return checkpoint_->bytes(name); }

 private:
  std::string file_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST(GoldenWeights, AreNearlyNormallyDistributed) {
  const Drawn drawn(R"({"x": ["F32", [100000], "normal", 1.0, 0.2]})");
  double sum = 0.0;
  double squares = 0.0;
  for (const float x : drawn.floats("x")) {
    sum += x;
    squares += (x - 1.0) * (x - 1.0);
    ASSERT_LE(std::abs(x - 1.0F), 0.6001F);  // three deviations
  }
  EXPECT_NEAR(sum / 100000, 1.0, 0.003);
  EXPECT_NEAR(std::sqrt(squares / 100000), 0.2, 0.002);
}

TEST(GoldenWeights, HaveTheBitsOfThoseFromPython) {
  const Drawn drawn(
      R"({"a.weight": ["F32", [2, 3], "normal", 0.5, 0.25], "t": ["I64", [3, 2], "distinct", 6]})");
  EXPECT_THAT(drawn.floats("a.weight"),
              ElementsAre(0.4410501718521118F, 0.46818482875823975F, 0.4454241991043091F, 0.4550586938858032F,
                          0.5692380666732788F, 0.358223557472229F));
  std::vector<int64_t> table(6);
  std::memcpy(table.data(), drawn.bytes("t").data(), drawn.bytes("t").size());
  EXPECT_THAT(table, ElementsAre(5, 0, 4, 0, 4, 0));
  const std::string file =
      golden_weights_file(7, nlohmann::json::parse(R"({"m.{0..1}.w": ["F16", [2, 3], "normal", 0.0, 0.5],
                                   "b": ["BF16", [4], "normal", 1.0, 0.2], "i": ["I64", [2, 2], "distinct", 5],
                                   "m": ["U8", [2], "values", 1, 0], "s": ["F32", [], "constant", -1e4]})"));
  EXPECT_EQ(file.size(), 454U);
  EXPECT_EQ(crc32(std::as_bytes(std::span(file))), 3392829847U);
}

TEST(GoldenWeights, DependOnSeedAndName) {
  const auto tensors = nlohmann::json::parse(R"({"x.{0..1}": ["F32", [4], "normal", 0.0, 1.0]})");
  const Drawn drawn(R"({"x.{0..1}": ["F32", [4], "normal", 0.0, 1.0]})");
  EXPECT_NE(drawn.floats("x.0"), drawn.floats("x.1"));
  EXPECT_NE(golden_weights_file(7, tensors), golden_weights_file(8, tensors));
}

TEST(GoldenWeights, NamesMayHaveSeveralRanges) {
  EXPECT_THAT(expand_ranges("a.{0..1}.b.{9..10}"), ElementsAre("a.0.b.9", "a.0.b.10", "a.1.b.9", "a.1.b.10"));
  EXPECT_THAT(expand_ranges("a.0"), ElementsAre("a.0"));
}

TEST(GoldenWeights, TiedWeightsAreEqual) {
  const Drawn drawn(R"({"a": ["F32", [4], "normal", 0.0, 1.0], "b": ["F32", [4], "normal", 0.0, 1.0, "a"]})");
  EXPECT_EQ(drawn.floats("a"), drawn.floats("b"));
}

TEST(GoldenWeights, InvalidDescriptionsAreErrors) {
  for (const char* tensors :
       {R"({"x": ["F32", [2], "values", 1]})", R"({"x": ["F32", [2], "uniform", 0, 1]})",
        R"({"x": ["F8_E4M3", [2], "constant", 1]})"})
    EXPECT_THROW(golden_weights_file(0, nlohmann::json::parse(tensors)), Error) << tensors;
}

TEST(GoldenCheckpoint, HasTheFilesOfTheSourceAndItsWeights) {
  const fs::path dir = golden_checkpoint("models/llama-sharded");
  EXPECT_EQ(dir, golden_checkpoint("models/llama-sharded"));
  const auto index = read_json_file(dir / "model.safetensors.index.json");
  for (const auto& [name, file] : index["weight_map"].items()) {
    std::ifstream stream(dir / file.get<std::string>(), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(stream)), {});
    const auto checkpoint = Checkpoint::from_memory({"shard", "{}", "", std::as_bytes(std::span(bytes))});
    EXPECT_NE(checkpoint->find(name), nullptr) << name;
  }
  EXPECT_EQ(read_text_file(dir / "config.json"),
            read_text_file(golden_root() / "models/llama-sharded/config.json"));
}

// golden_checkpoint() compares each file with the CRC-32 of the one that Python wrote.
TEST(GoldenCheckpoint, ModelsAreDescribedAndNotStored) {
  for (const std::string set : {"models", "pooling"}) {
    for (const std::string& name : golden_names(set)) {
      SCOPED_TRACE(set + "/" + name);
      const fs::path source = golden_root() / set / name;
      EXPECT_TRUE(fs::exists(source / "weights.json"));
      for (const auto& entry : fs::recursive_directory_iterator(source))
        EXPECT_NE(entry.path().extension(), ".safetensors") << entry.path();
      EXPECT_NO_THROW(golden_checkpoint(set + "/" + name));
    }
  }
}

}  // namespace
}  // namespace quire::test
