// Encoding floats as ggml blocks, compared with the PyPI package gguf (tools/make_ggml_goldens.py).
#include "io/gguf/ggml_encode.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include "io/gguf/gguf_writer.h"
#include "io/json_file.h"
#include "unit/io/io_test_util.h"

namespace quire {
namespace {

std::vector<float> some_weights(size_t n, uint32_t seed = 1) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.01F, 0.05F);
  std::vector<float> w(n);
  for (float& v : w) v = normal(rng);
  return w;
}

std::vector<std::byte> encoded(const GgmlType& type, std::span<const float> w) {
  std::vector<std::byte> bytes(type.bytes_of(static_cast<int64_t>(w.size())));
  encode_ggml(type, w, bytes.data());
  return bytes;
}

// The decoded values of a row of blocks.
std::vector<float> decoded(const GgmlType& type, std::span<const std::byte> bytes, size_t n) {
  const auto matrix = make_ggml_matrix(type, bytes, 1, static_cast<int64_t>(n), {});
  const QuantFormat& f = type.format;
  const auto group = static_cast<size_t>(f.group_size);
  const auto block = static_cast<size_t>(f.block_size);
  std::vector<uint8_t> codes(n);
  std::vector<uint8_t> group_minima(codes.size() / group);
  std::vector<float> scales(n / block), minima(n / block);
  std::vector<int8_t> group_scales(n / group);
  const QuantizedRow out = {codes, scales, group_scales, minima, group_minima, {}};
  matrix->read_rows(0, std::span(&out, 1));
  std::vector<float> w(n);
  for (size_t i = 0; i < n; ++i) {
    const float two = f.two_levels() ? static_cast<float>(group_scales[i / group]) : 1.0F;
    const float low = f.two_levels() ? static_cast<float>(group_minima[i / group]) : 1.0F;
    const float number = f.table.empty() ? static_cast<float>(codes[i] - f.zero_point) : f.table[codes[i]];
    w[i] = scales[i / block] * two * number - (f.minima ? minima[i / block] * low : 0.0F);
  }
  return w;
}

TEST(GgmlEncode, OneLevelTypesMatchTheReference) {
  const auto golden =
      read_json_file(std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/golden/gguf/encoded.json");
  const std::vector<float> values = golden["values"];
  for (const auto& [name, hex] : golden["blocks"].items()) {
    std::string text;
    for (const std::byte b : encoded(*find_ggml_type(name), values)) {
      constexpr const char* kDigits = "0123456789abcdef";
      text += kDigits[static_cast<int>(b) >> 4];
      text += kDigits[static_cast<int>(b) & 15];
    }
    EXPECT_EQ(text, hex.get<std::string>()) << name;
  }
}

TEST(GgmlEncode, AllTypesAreAccurate) {
  const auto w = some_weights(1024);
  const std::vector<std::pair<std::string, double>> limits = {
      {"Q8_0", 0.006}, {"Q6_K", 0.02}, {"Q5_K", 0.04}, {"Q5_1", 0.04}, {"Q5_0", 0.045},  {"Q4_K", 0.08},
      {"Q4_1", 0.08},  {"Q4_0", 0.09}, {"Q3_K", 0.17}, {"Q2_K", 0.3},  {"IQ4_NL", 0.08}, {"IQ4_XS", 0.085}};
  for (const auto& [name, limit] : limits) {
    const GgmlType& type = *find_ggml_type(name);
    ASSERT_TRUE(can_encode(type)) << name;
    const auto back = decoded(type, encoded(type, w), w.size());
    double error = 0.0;
    double size = 0.0;
    for (size_t i = 0; i < w.size(); ++i) {
      error += std::pow(static_cast<double>(back[i]) - w[i], 2);
      size += std::pow(w[i], 2);
    }
    EXPECT_LT(std::sqrt(error / size), limit) << name;
  }
  EXPECT_FALSE(can_encode(*find_ggml_type("IQ2_XXS")));
}

// Some columns are a hundred times as important as others.
TEST(GgmlEncode, ImportanceReducesTheWeightedError) {
  const auto w = some_weights(2048, 3);
  std::vector<float> importance(w.size());
  std::mt19937 rng(4);
  for (float& v : importance) v = rng() % 4 == 0 ? 100.0F : 1.0F;
  for (const char* name :
       {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"}) {
    const GgmlType& type = *find_ggml_type(name);
    const auto error = [&](std::span<const float> counts) {
      std::vector<std::byte> bytes(type.bytes_of(static_cast<int64_t>(w.size())));
      encode_ggml(type, w, bytes.data(), counts);
      const auto back = decoded(type, bytes, w.size());
      double sum = 0.0;
      for (size_t i = 0; i < w.size(); ++i)
        sum += importance[i] * std::pow(static_cast<double>(back[i]) - w[i], 2);
      return sum;
    };
    EXPECT_LT(error(importance), 0.97 * error({})) << name;
    // Equal importance gives the same result as none.
    const std::vector<float> same(w.size(), 2.0F);
    if (type.format.two_levels()) {
      EXPECT_EQ(error(same), error({})) << name;
    }
  }
}

TEST(GgmlEncode, PreservesConstantBlocks) {
  for (const float value : {0.0F, 0.5F, -0.5F}) {
    const std::vector<float> w(256, value);
    for (const char* name : {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
                             "IQ4_NL", "IQ4_XS"}) {
      const GgmlType& type = *find_ggml_type(name);
      for (const float v : decoded(type, encoded(type, w), w.size()))
        ASSERT_NEAR(v, value, std::fabs(value) * 0.07F) << name;
    }
  }
}

TEST(GgmlEncode, LinesFindTheNearestCode) {
  const GgmlLine even{.step = 0.5F, .offset = -1.0F};
  EXPECT_EQ(even.nearest(0.2F, 2), 2);
  EXPECT_EQ(even.nearest(-9.0F, 2), 0);
  EXPECT_EQ(even.nearest(9.0F, 2), 3);
  const std::array<float, 4> numbers = {-8.0F, -1.0F, 2.0F, 9.0F};
  const GgmlLine table{.step = -0.5F, .table = numbers};
  EXPECT_EQ(table.nearest(4.0F, 2), 0);
  EXPECT_EQ(table.nearest(-0.2F, 2), 1);
  EXPECT_EQ(table.nearest(-0.3F, 2), 2);
  EXPECT_EQ(table.nearest(-99.0F, 2), 3);
  EXPECT_EQ(table.value(3), -4.5F);
}

TEST(GgmlEncode, ReplacingCodesKeepsTheScales) {
  const auto w = some_weights(512);
  std::mt19937 rng(5);
  for (const char* name :
       {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"}) {
    const GgmlType& type = *find_ggml_type(name);
    auto bytes = encoded(type, w);
    const auto group = static_cast<size_t>(type.format.group_size);
    std::vector<GgmlLine> lines(w.size() / group);
    ggml_lines(type, bytes.data(), lines);
    std::vector<uint8_t> codes(w.size());
    for (uint8_t& code : codes) code = static_cast<uint8_t>(rng() % (1U << type.format.code_bits));
    put_ggml_codes(type, codes, bytes.data());
    const auto back = decoded(type, bytes, w.size());
    for (size_t i = 0; i < w.size(); ++i) {
      const GgmlLine& line = lines[i / group];
      ASSERT_NEAR(back[i], line.value(codes[i]), 1e-6) << name << " " << i;
    }
  }
}

TEST(GgufFileWriter, WritesFilesThatTheReaderAccepts) {
  const test::TempDir dir;
  GgufMetadata metadata;
  metadata.text("general.architecture", "llama");
  metadata.u32("llama.block_count", 3);
  metadata.f32("llama.rope.freq_base", 1e4F);
  metadata.boolean("flag", true);
  metadata.texts("texts", std::vector<std::string>{"a", "", "c"});
  metadata.i32s("numbers", std::vector<int32_t>{-1, 2});
  metadata.f32s("floats", std::vector<float>{0.5F});
  EXPECT_NE(test::error_of([&] { metadata.boolean("flag", false); }).find("duplicate"), std::string::npos);
  const auto w = some_weights(64);
  const std::vector<GgufOutput> tensors = {{"one", find_ggml_type("F32"), {5}},
                                           {"two", find_ggml_type("Q8_0"), {2, 32}}};
  GgufFileWriter writer(dir.path() / "m.gguf", metadata, tensors);
  EXPECT_EQ(writer.total_bytes(), 20 + 68);
  writer.write("two", encoded(*find_ggml_type("Q8_0"), w));
  EXPECT_NE(test::error_of([&] { writer.finish(); }).find("'one' is incomplete"), std::string::npos);
  const auto parts = std::as_bytes(std::span(w).first(6));
  writer.write("one", parts.first(12));
  EXPECT_NE(test::error_of([&] { writer.finish(); }).find("12 of 20 bytes"), std::string::npos);
  EXPECT_NE(test::error_of([&] { writer.write("one", parts.subspan(12)); }).find("declared with 20"),
            std::string::npos);
  writer.write("one", parts.subspan(12, 8));
  writer.finish();
  const std::string bytes = read_text_file(dir.path() / "m.gguf");
  const GgufFile file(test::as_bytes(bytes), "m.gguf");
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.integer("llama.block_count"), 3);
  EXPECT_EQ(file.number("llama.rope.freq_base"), 1e4);
  EXPECT_EQ(file.boolean("flag"), true);
  EXPECT_EQ(file.texts("texts").size(), 3U);
  EXPECT_EQ(file.integers("numbers"), (std::vector<int64_t>{-1, 2}));
  EXPECT_EQ(file.numbers("floats"), std::vector<double>{0.5});
  ASSERT_EQ(file.tensors().size(), 2U);
  EXPECT_EQ(file.tensors()[1].shape, (std::vector<int64_t>{2, 32}));
  const auto data = file.data(file.tensors()[0]);
  EXPECT_EQ(std::memcmp(data.data(), w.data(), 20), 0);
}

}  // namespace
}  // namespace quire
