// Builders of small valid and invalid files.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "support/temp_dir.h"

namespace quire::test {

inline std::string little_endian(uint64_t n) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>((n >> (8 * i)) & 0xff);
  return text;
}

// A safetensors file with this header and `data_bytes` bytes of data: 0, 1, 2, ...
inline std::string safetensors_file(std::string_view header, size_t data_bytes) {
  std::string file = little_endian(header.size());
  file += header;
  for (size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i & 0x7f);
  return file;
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// The message of the Error that f throws; if f does not throw, the test fails and the result is empty.
inline std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

}  // namespace quire::test
