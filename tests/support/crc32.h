// CRC-32 as in zlib, for comparisons with values that Python has stored.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace quire::test {

inline uint32_t crc32(std::span<const std::byte> bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> values{};
    for (uint32_t i = 0; i < 256; ++i) {
      values[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        values[i] = (values[i] >> 1) ^ ((values[i] & 1) != 0 ? 0xEDB88320U : 0);
    }
    return values;
  }();
  uint32_t crc = ~0U;
  for (const std::byte byte : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  return ~crc;
}

}  // namespace quire::test
