#include "hub/weight_header.h"

#include <gtest/gtest.h>

#include <string>

namespace quire::hub {
namespace {

std::string little_endian(uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i) bytes += static_cast<char>(value >> (8 * i) & 255);
  return bytes;
}

std::string text(const std::string& value) {
  return little_endian(value.size(), 8) + value;
}

TEST(WeightHeader, ReadsTheSizeOfSafetensors) {
  EXPECT_EQ(header_size(""), 8U);
  EXPECT_EQ(header_size("1234"), 8U);
  EXPECT_EQ(header_size(little_endian(100, 8)), 108U);
  EXPECT_EQ(header_size(little_endian(100, 8) + std::string(500, ' ')), 108U);
  EXPECT_EQ(header_size(little_endian(uint64_t{1} << 62, 8)), 0U);
  EXPECT_EQ(header_size(std::string(8, '\xff')), 0U);
}

TEST(WeightHeader, FindsTheEndOfGguf) {
  const std::string entries =
      text("general.name") + little_endian(8, 4) + text("model")      // string
      + text("a.count") + little_endian(4, 4) + little_endian(7, 4)   // uint32
      + text("tokens") + little_endian(9, 4) + little_endian(8, 4) +  // array of strings
      little_endian(2, 8) + text("x") + text("yz")                    //
      + text("scores") + little_endian(9, 4) + little_endian(6, 4) +  // array of float32
      little_endian(3, 8) + std::string(12, '\0');
  const std::string tensor =
      text("token_embd.weight") + little_endian(2, 4) + std::string(2 * 8 + 4 + 8, '\0');
  const std::string header =
      "GGUF" + little_endian(3, 4) + little_endian(1, 8) + little_endian(4, 8) + entries + tensor;
  EXPECT_EQ(header_size(header + std::string(1000, 'x')), header.size());
  EXPECT_EQ(header_size(header), header.size());
  for (size_t size = 8; size < header.size(); ++size) EXPECT_GT(header_size(header.substr(0, size)), size);
}

TEST(WeightHeader, RejectsABrokenGgufFile) {
  const std::string begin = "GGUF" + little_endian(3, 4) + little_endian(1, 8) + little_endian(1, 8);
  EXPECT_EQ(header_size(begin + text("key") + little_endian(77, 4) + std::string(100, '\0')), 0U);
  // Absurd counts end with the bytes.
  EXPECT_GT(header_size("GGUF" + little_endian(3, 4) + std::string(16, '\xff') + std::string(100, '\0')),
            124U);
  EXPECT_GT(header_size(begin + little_endian(~uint64_t{0}, 8)), 32U);
}

}  // namespace
}  // namespace quire::hub
