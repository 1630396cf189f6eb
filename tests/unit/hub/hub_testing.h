// Helpers of the hub's tests.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "support/temp_dir.h"

namespace quire::hub::test {

using quire::test::TempDir;

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The message of the Error that a call throws; "" if it throws none.
template <typename Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace quire::hub::test
