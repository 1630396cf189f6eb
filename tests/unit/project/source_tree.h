// The files of the repository, for tests that read sources.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace quire::test {

inline const std::filesystem::path kRoot = QUIRE_SOURCE_DIR;

inline std::vector<std::string> lines_of(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline std::string in_tree(const std::filesystem::path& path) {
  return std::filesystem::relative(path, kRoot).string();
}

}  // namespace quire::test
