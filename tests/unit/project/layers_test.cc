// The order of the project: who may include whom, how long a file may be, and words that have no place in it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = QUIRE_SOURCE_DIR;

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<fs::path> sources_below(const fs::path& dir) {
  const std::set<std::string> endings = {".h", ".cc", ".py", ".sh"};
  std::vector<fs::path> files;
  if (!fs::exists(dir)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    if (entry.is_regular_file() && endings.count(entry.path().extension().string()) > 0)
      files.push_back(entry.path());
  }
  return files;
}

struct Layers {
  std::vector<std::string> order;
  std::map<std::string, std::set<std::string>> may_use;
};

Layers read_layers() {
  Layers layers;
  for (const auto& line : lines_of(kRoot / "tools/layers.txt")) {
    if (line.empty() || line[0] == '#') continue;
    const size_t colon = line.find(':');
    const std::string name = line.substr(0, colon);
    layers.order.push_back(name);
    std::istringstream rest(line.substr(colon + 1));
    layers.may_use[name].insert(name);
    for (std::string used; rest >> used;) layers.may_use[name].insert(used);
  }
  return layers;
}

std::string in_tree(const fs::path& path) {
  return fs::relative(path, kRoot).string();
}

TEST(Layers, EachUsesOnlyEarlierOnes) {
  const Layers layers = read_layers();
  std::set<std::string> earlier;
  for (const auto& layer : layers.order) {
    for (const auto& used : layers.may_use.at(layer)) {
      EXPECT_TRUE(used == layer || earlier.count(used) > 0)
          << layer << " uses " << used << ", which stands below it";
    }
    earlier.insert(layer);
  }
}

TEST(Layers, EveryFolderIsListed) {
  const Layers layers = read_layers();
  for (const auto& entry : fs::directory_iterator(kRoot / "src")) {
    const auto name = entry.path().filename().string();
    EXPECT_TRUE(layers.may_use.count(name) > 0) << "src/" << name << " is not in tools/layers.txt";
  }
}

TEST(Layers, IncludesFollowTheDirection) {
  const Layers layers = read_layers();
  const std::regex include("^\\s*#\\s*include\\s+\"([a-z_]+)/");
  for (const auto& layer : layers.order) {
    for (const auto& file : sources_below(kRoot / "src" / layer)) {
      int number = 0;
      for (const auto& line : lines_of(file)) {
        ++number;
        std::smatch match;
        if (!std::regex_search(line, match, include)) continue;
        const std::string used = match[1];
        if (used == "quire") continue;  // the public headers, which use nothing
        EXPECT_TRUE(layers.may_use.at(layer).count(used) > 0)
            << in_tree(file) << ":" << number << ": " << layer << " may not include " << used;
      }
    }
  }
}

TEST(Layers, PublicHeadersStandAlone) {
  const std::regex include("^\\s*#\\s*include\\s+\"(.*)\"");
  for (const auto& file : sources_below(kRoot / "include")) {
    for (const auto& line : lines_of(file)) {
      std::smatch match;
      if (std::regex_search(line, match, include)) {
        EXPECT_EQ(match[1].str().rfind("quire/", 0), 0U) << in_tree(file) << ": " << line;
      }
    }
  }
}

TEST(Layers, EachFolderSaysWhatItIs) {
  for (const auto& entry : fs::directory_iterator(kRoot / "src")) {
    const fs::path readme = entry.path() / "README.md";
    EXPECT_TRUE(fs::exists(readme)) << in_tree(readme);
    EXPECT_LE(lines_of(readme).size(), 60U) << in_tree(readme);
  }
}

TEST(Size, FilesStayReadable) {
  // Tables that are clearer whole.
  const std::set<std::string> tables = {"src/text/unicode/tables.cc"};
  for (const char* dir : {"src", "include", "tests", "tools", "bench", "examples"}) {
    for (const auto& file : sources_below(kRoot / dir)) {
      if (tables.count(in_tree(file)) > 0) continue;
      EXPECT_LE(lines_of(file).size(), 800U) << in_tree(file);
    }
  }
}

TEST(Words, NothingIsLeftUnfinished) {
  const std::regex unfinished("\\b(TODO|FIXME|XXX|HACK|unimplemented|not implemented)\\b");
  for (const char* dir : {"src", "include", "examples"}) {
    for (const auto& file : sources_below(kRoot / dir)) {
      int number = 0;
      for (const auto& line : lines_of(file)) {
        ++number;
        EXPECT_FALSE(std::regex_search(line, unfinished)) << in_tree(file) << ":" << number << ": " << line;
      }
    }
  }
}

TEST(Words, NoPathOfOneMachine) {
  const std::regex absolute("\"/(home|root|work|opt)/");
  for (const char* dir : {"src", "include", "examples", "tests", "tools", "bench"}) {
    for (const auto& file : sources_below(kRoot / dir)) {
      if (file.filename() == "layers_test.cc") continue;
      for (const auto& line : lines_of(file)) {
        EXPECT_FALSE(std::regex_search(line, absolute)) << in_tree(file) << ": " << line;
      }
    }
  }
}

TEST(Words, DevicesStayInTheirBackends) {
  const std::regex cuda("cuda_runtime|cudaMalloc|__CUDACC__|__AVX");
  for (const auto& file : sources_below(kRoot / "src")) {
    const std::string name = in_tree(file);
    if (name.rfind("src/backends/", 0) == 0 || name.rfind("src/comm/", 0) == 0) continue;
    for (const auto& line : lines_of(file))
      EXPECT_FALSE(std::regex_search(line, cuda)) << name << ": " << line;
  }
}

}  // namespace
