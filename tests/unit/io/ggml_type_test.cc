// Every ggml block type decodes to the same bits as the reference.
#include <gtest/gtest.h>

#include <vector>

#include "io/gguf/ggml_decode.h"
#include "io/gguf/ggml_type.h"
#include "io/json_file.h"
#include "support/crc32.h"
#include "unit/io/io_test_util.h"

namespace quire {
namespace {

// A row's weights, computed according to QuantFormat.
std::vector<float> decode_row(const QuantizedMatrix& matrix, int64_t row) {
  const QuantFormat& f = matrix.format();
  const auto k = static_cast<size_t>(matrix.cols());
  const auto group = static_cast<size_t>(f.group_size);
  const auto block = static_cast<size_t>(f.block_size);
  std::vector<uint8_t> codes(k);
  std::vector<float> scales(k / block), minima(k / block);
  std::vector<int8_t> group_scales(k / group);
  std::vector<uint8_t> group_minima(k / group);
  const QuantizedRow out = {codes, scales, group_scales, minima, group_minima, {}};
  matrix.read_rows(row, std::span(&out, 1));
  std::vector<float> weights(k);
  for (size_t i = 0; i < k; ++i) {
    EXPECT_LT(codes[i], 1 << f.code_bits);
    const float value =
        f.values == CodeValues::kTable ? f.table[codes[i]] : static_cast<float>(codes[i] - f.zero_point);
    float scale = scales[i / block];
    if (f.two_levels()) scale *= static_cast<float>(group_scales[i / group]);
    volatile float product = scale * value;  // rounded separately
    if (f.minima) {
      float minimum = minima[i / block];
      if (f.two_levels()) minimum *= static_cast<float>(group_minima[i / group]);
      product = product - minimum;
    }
    weights[i] = product + 0.0F;
  }
  return weights;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

class GgmlBlocks : public testing::TestWithParam<const GgmlType*> {};

TEST_P(GgmlBlocks, DecodeToTheBitsOfTheReference) {
  const GgmlType& type = *GetParam();
  const auto goldens =
      read_json_file(std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/golden/gguf/blocks.json");
  ASSERT_TRUE(goldens.contains(type.name)) << type.name;
  const auto& golden = goldens[std::string(type.name)];
  const std::string blocks = from_hex(golden["blocks"].get<std::string>());
  ASSERT_EQ(blocks.size(), 8 * type.bytes);
  const int64_t cols = 4 * type.elements;
  const auto matrix = make_ggml_matrix(type, test::as_bytes(blocks), 2, cols, {});
  EXPECT_EQ(matrix->rows(), 2);
  EXPECT_EQ(matrix->cols(), cols);
  if (type.format.values == CodeValues::kTable) {
    EXPECT_EQ(type.format.table.size(), size_t{1} << type.format.code_bits);
  }
  std::vector<float> all = decode_row(*matrix, 0);
  const auto first = golden["first"].get<std::vector<float>>();
  for (size_t i = 0; i < first.size(); ++i) EXPECT_EQ(all[i], first[i]) << i;
  const std::vector<float> second = decode_row(*matrix, 1);
  all.insert(all.end(), second.begin(), second.end());
  EXPECT_EQ(test::crc32(std::as_bytes(std::span(all))), golden["crc"].get<uint32_t>());
  std::vector<float> decoded(all.size());
  decode_ggml(type, test::as_bytes(blocks), decoded.data());
  EXPECT_EQ(decoded, all);

  // Rows in another order, both in one call.
  const std::vector<int32_t> order = {1, 0};
  const auto turned = make_ggml_matrix(type, test::as_bytes(blocks), 2, cols, order);
  EXPECT_EQ(decode_row(*turned, 0), second);
}

std::vector<const GgmlType*> quantized_types() {
  std::vector<const GgmlType*> types;
  for (const GgmlType& type : ggml_types()) {
    if (type.quantized()) types.push_back(&type);
  }
  return types;
}

INSTANTIATE_TEST_SUITE_P(All, GgmlBlocks, testing::ValuesIn(quantized_types()),
                         [](const auto& test) { return std::string(test.param->name); });

}  // namespace
}  // namespace quire
