// Locations of the data of the tokenizer tests.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace quire::test {

inline std::filesystem::path shared_dir() {
  if (const char* dir = std::getenv("QUIRE_SHARED")) return dir;
  return std::filesystem::path(QUIRE_SOURCE_DIR) / ".." / "shared";
}
inline std::filesystem::path fixture_dir() {
  return std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/fixtures/tokenizers";
}

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
inline nlohmann::json read_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(read_text(path));
}

}  // namespace quire::test

// Skips the test with a message if the shared reference data is not available.
#define QUIRE_NEEDS_SHARED(path)                                                         \
  do {                                                                                   \
    if (!std::filesystem::exists(path)) {                                                \
      GTEST_SKIP() << "SKIPPED: no reference data at " << path << " (set QUIRE_SHARED)"; \
    }                                                                                    \
  } while (false)
