// GGUF files as llama.cpp's converter writes them give what transformers computes with the models they were
// made of. tests/golden/gguf/models.json says what the converter makes of tests/golden/models.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>

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

struct Rows {
  size_t width = 0;
  std::vector<float> values;
  size_t count() const { return values.size() / width; }
};

// A tensor of the source, or its part `slice`.
Rows stored_rows(const json& tensor, const Checkpoint& source) {
  const auto name = tensor["source"].get<std::string>();
  const TensorInfo& info = *source.find(name);
  const auto bytes = source.bytes(name);
  const bool part = tensor.contains("slice");
  size_t count = 1;
  for (size_t i = part ? 1 : 0; i < info.shape.size(); ++i) count *= static_cast<size_t>(info.shape[i]);
  Rows rows{count / static_cast<size_t>(info.shape[part ? 1 : 0]), std::vector<float>(count)};
  const size_t first = tensor.value("slice", size_t{0}) * count * dtype_size(info.dtype);
  decode_f32(info.dtype, bytes.data() + first, rows.values.data(), static_cast<int64_t>(count));
  return rows;
}

Rows transposed(const Rows& rows) {
  Rows out{rows.count(), std::vector<float>(rows.values.size())};
  for (size_t r = 0; r < rows.count(); ++r) {
    for (size_t c = 0; c < rows.width; ++c) out.values[c * out.width + r] = rows.values[r * rows.width + c];
  }
  return out;
}

Rows chosen_rows(const json& tensor, const Rows& rows) {
  std::vector<size_t> chosen;
  if (tensor.contains("rows")) {
    chosen = tensor["rows"].get<std::vector<size_t>>();
  } else {
    const auto range = tensor["range"].get<std::array<size_t, 3>>();
    for (size_t i = 0; i < range[2]; ++i) chosen.push_back(range[0] + i * range[1]);
  }
  Rows out{rows.width, {}};
  for (const size_t r : chosen) {
    const auto begin = rows.values.begin() + static_cast<ptrdiff_t>(r * rows.width);
    out.values.insert(out.values.end(), begin, begin + static_cast<ptrdiff_t>(rows.width));
  }
  return out;
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
  Rows rows = stored_rows(tensor, source);
  if (tensor.value("transposed", false)) rows = transposed(rows);
  if (tensor.contains("range") || tensor.contains("rows")) rows = chosen_rows(tensor, rows);
  if (tensor.value("turned", false)) rows = transposed(rows);
  const json factors = tensor.value("times", json::array({1.0F}));
  for (size_t i = 0; i < rows.values.size(); ++i) {
    float& value = rows.values[i];
    value *= factors[factors.size() > 1 ? i / rows.width : 0].get<float>();
    value += tensor.value("plus", 0.0F);
    if (tensor.value("rate", false)) value = -std::exp(value);
  }
  return rows.values;
}

// "blk.0.ffn_gate_exps.weight" -> "blk.0.ffn_gate.3.weight".
std::string name_of_expert(std::string name, size_t expert) {
  constexpr std::string_view kStacked = "_exps";
  return name.replace(name.find(kStacked), kStacked.size(), "." + std::to_string(expert));
}

// experts_apart: as the first files have them, a tensor for each.
std::string make_gguf(const std::string& name, bool experts_apart = false) {
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
    const auto tensor_name = tensor["name"].get<std::string>();
    auto shape = tensor["shape"].get<std::vector<uint64_t>>();
    if (!experts_apart || shape.size() != 3) {
      writer.tensor(tensor_name, shape, type.id, bytes);
      continue;
    }
    const size_t experts = shape.back();
    const size_t part = bytes.size() / experts;
    shape.pop_back();
    for (size_t e = 0; e < experts; ++e)
      writer.tensor(name_of_expert(tensor_name, e), shape, type.id, bytes.substr(e * part, part));
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

TEST(GgufExperts, MayHaveATensorEach) {
  const std::string file = make_gguf("mixtral", true);
  test::expect_golden("mixtral", reference_ops(), [&] {
    return gguf_from_memory(std::as_bytes(std::span(file.data(), file.size())), "mixtral.gguf");
  });
}

// A DeepSeek whose heads' matrices are whole blocks of 32, of random numbers that Q8_0 holds exactly.
std::string latent_attention(bool coded) {
  const std::map<std::string, uint32_t> sizes = {{"attention.key_length", 36},
                                                 {"attention.value_length", 32},
                                                 {"attention.kv_lora_rank", 32},
                                                 {"attention.key_length_mla", 36},
                                                 {"attention.value_length_mla", 32}};
  const std::map<std::string, std::vector<uint64_t>> shapes = {
      {"attn_kv_a_norm", {32}},  {"attn_kv_a_mqa", {24, 36}}, {"attn_k_b", {32, 32, 4}},
      {"attn_v_b", {32, 32, 4}}, {"attn_output", {128, 24}},  {"attn_q", {24, 144}}};
  const json& model = all_models()["deepseek_v2"];
  test::GgufWriter writer;
  for (const json& entry : model["metadata"]) {
    const auto key = entry[0].get<std::string>();
    const auto size = sizes.find(key.substr(key.find('.') + 1));
    writer.json(key, entry[1].get<std::vector<std::string>>(),
                size == sizes.end() ? entry[2] : json(size->second));
  }
  std::mt19937 random(7);
  std::uniform_int_distribution<int> numbers(-127, 127);
  constexpr float kScale = 1.0F / 512.0F;
  for (const json& tensor : model["tensors"]) {
    const auto name = tensor["name"].get<std::string>();
    const std::string module =
        name.substr(0, name.rfind('.')).substr(name.rfind("attn_") == name.npos ? 0 : name.rfind("attn_"));
    const auto other = shapes.find(module);
    const auto shape = other == shapes.end() ? tensor["shape"].get<std::vector<uint64_t>>() : other->second;
    const uint64_t count = std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
    const bool codes = coded && (module == "attn_k_b" || module == "attn_v_b");
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

TEST(GgufLatentAttention, HeadsMayBeQuantized) {
  const auto logits = [](bool coded) {
    const std::string file = latent_attention(coded);
    const auto loaded = test::load_model(
        gguf_from_memory(std::as_bytes(std::span(file.data(), file.size())), "latent.gguf"), reference_ops());
    test::PagedRunner runner(*loaded.model, reference_ops(), nullptr, {});
    const std::vector<int32_t> prompt = {1, 5, 9, 33, 2};
    return runner.append(prompt, 5);
  };
  EXPECT_EQ(logits(true), logits(false));
}

TEST(GgufStories260K, GreedyTokensAreExact) {
  const auto file = test::shared_dir() / "data/models/stories260K.gguf";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << file << " is not there: stories260K.gguf was not run";
  test::expect_stories(reference_ops(), file);
}

}  // namespace
}  // namespace quire
