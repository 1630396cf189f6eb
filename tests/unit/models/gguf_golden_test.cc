// GGUF files as llama.cpp's converter writes them give what transformers computes with the models they were
// made of. tests/golden/gguf/models.json says what the converter makes of tests/golden/models.
#include <gtest/gtest.h>

#include <map>

#include "io/gguf/gguf_checkpoint.h"
#include "ops/reference.h"
#include "quant/codec.h"
#include "unit/io/gguf_writer.h"
#include "unit/models/golden_models.h"

namespace quire {
namespace {

using nlohmann::json;

const json& all_models() {
  static const json models =
      read_json_file(std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/golden/gguf/models.json")["models"];
  return models;
}

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const auto& [name, model] : all_models().items()) names.push_back(name);
  return names;
}

// A tensor's values as float32: those of its source in the order and with the shift that the converter gave
// them.
std::vector<float> values_of(const json& tensor, const Checkpoint& source) {
  if (tensor.contains("parts")) {
    std::vector<float> all;
    json part_shape = tensor["shape"];
    part_shape.erase(part_shape.size() - 1);
    for (json part : tensor["parts"]) {
      part["shape"] = part_shape;
      const auto values = values_of(part, source);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  if (tensor["source"].is_null()) return tensor["values"].get<std::vector<float>>();
  const auto name = tensor["source"].get<std::string>();
  const TensorInfo& info = *source.find(name);
  const auto bytes = source.bytes(name);
  int64_t count = 1;
  for (const int64_t dim : info.shape) count *= dim;
  std::vector<float> stored(static_cast<size_t>(count));
  decode_f32(info.dtype, bytes.data(), stored.data(), count);
  const auto rows = static_cast<size_t>(tensor["shape"].back().get<int64_t>());
  const size_t width = stored.size() / rows;
  if (tensor.value("transposed", false)) {
    std::vector<float> turned(stored.size());
    for (size_t r = 0; r < rows; ++r) {
      for (size_t c = 0; c < width; ++c) turned[r * width + c] = stored[c * rows + r];
    }
    stored = turned;
  }
  std::vector<float> values = stored;
  if (tensor.contains("rows")) {
    for (size_t r = 0; r < rows; ++r) {
      const auto from = tensor["rows"][r].get<size_t>();
      for (size_t c = 0; c < width; ++c) values[r * width + c] = stored[from * width + c];
    }
  }
  for (float& value : values) value += tensor.value("plus", 0.0F);
  return values;
}

std::string make_gguf(const std::string& name) {
  const json& model = all_models()[name];
  const auto source = Checkpoint::open(test::golden_dir() / name);
  test::GgufWriter writer;
  for (const json& entry : model["metadata"])
    writer.json(entry[0].get<std::string>(), entry[1].get<std::vector<std::string>>(), entry[2]);
  for (const json& tensor : model["tensors"]) {
    const GgmlType& type = *find_ggml_type(tensor["type"].get<std::string>());
    const auto values = values_of(tensor, *source);
    std::string bytes(values.size() * type.bytes, '\0');
    encode_f32(*type.dtype, values.data(), bytes.data(), static_cast<int64_t>(values.size()));
    writer.tensor(tensor["name"].get<std::string>(), tensor["shape"].get<std::vector<uint64_t>>(), type.id,
                  bytes);
  }
  return writer.file();
}

class GgufGolden : public testing::TestWithParam<std::string> {};

TEST_P(GgufGolden, EqualsTransformers) {
  const std::string file = make_gguf(GetParam());
  test::expect_golden(GetParam(), reference_ops(), [&] {
    return gguf_from_memory(std::as_bytes(std::span(file.data(), file.size())), GetParam() + ".gguf");
  });
}

INSTANTIATE_TEST_SUITE_P(All, GgufGolden, testing::ValuesIn(model_names()),
                         [](const auto& test) { return test::test_name(test.param); });

TEST(GgufStories260K, GreedyTokensAreExact) {
  const auto file = test::shared_dir() / "data/models/stories260K.gguf";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there: stories260K.gguf was not run";
  test::expect_stories(reference_ops(), file);
}

}  // namespace
}  // namespace quire
