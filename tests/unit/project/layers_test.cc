// Rules of the source tree: which layer may include which, maximum sizes of files and functions, one
// definition of each type, and forbidden words.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "unit/project/source_tree.h"

namespace {

using quire::test::in_tree;
using quire::test::kRoot;
using quire::test::lines_of;
namespace fs = std::filesystem;

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

TEST(Layers, UseOnlyEarlierOnes) {
  const Layers layers = read_layers();
  std::set<std::string> earlier;
  for (const auto& layer : layers.order) {
    for (const auto& used : layers.may_use.at(layer)) {
      EXPECT_TRUE(used == layer || earlier.count(used) > 0)
          << layer << " uses " << used << ", which is not listed before it";
    }
    earlier.insert(layer);
  }
}

TEST(Layers, ListEveryFolder) {
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
        if (used == "quire") continue;  // the public headers, which include no layer
        EXPECT_TRUE(layers.may_use.at(layer).count(used) > 0)
            << in_tree(file) << ":" << number << ": " << layer << " may not include " << used;
      }
    }
  }
}

TEST(Layers, IncludeOnlyPublicHeadersInPublicHeaders) {
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

TEST(Layers, HaveAReadmeInEveryFolder) {
  for (const auto& entry : fs::directory_iterator(kRoot / "src")) {
    const fs::path readme = entry.path() / "README.md";
    EXPECT_TRUE(fs::exists(readme)) << in_tree(readme);
    EXPECT_LE(lines_of(readme).size(), 80U) << in_tree(readme);
  }
}

// Files with more than 600 lines, with the reason.
const std::map<std::string, std::string> kLongFiles = {
    {"src/cli/foreign_flag_table.cc", "the table of flags of three programs"},
    {"src/engine/engine.cc", "the calls of the engine's interface"},
    {"src/text/unicode/tables.cc", "generated tables"},
    {"tests/unit/ops/op_examples.h", "one example of each op, side by side"},
};

TEST(Size, FilesHaveAtMost600Lines) {
  for (const char* dir : {"src", "include", "tests", "tools", "bench", "examples"}) {
    for (const auto& file : sources_below(kRoot / dir)) {
      const bool is_long = lines_of(file).size() > 600;
      EXPECT_EQ(is_long, kLongFiles.contains(in_tree(file))) << in_tree(file);
    }
  }
}

// Functions with more than 80 lines, with the reason.
const std::map<std::string, std::string> kLongFunctions = {
    {"src/cli/flags.cc", "one line per flag"},
    {"src/text/chat/jinja/text_of.cc", "one case per kind of value"},
    {"tests/unit/models/sensitivity_test.cc", "a table of all settings"},
    {"tests/unit/sched/scheduler_random_test.cc", "one random run with its checks"},
    {"tests/unit/text/tokenizer_test.cc", "a table of tokenizer files"},
};

// Lines of the longest function body: from a line that ends a parameter list with a brace to the brace that
// closes it, which the formatter puts two columns left of the body.
size_t longest_function(const fs::path& file) {
  const std::regex begin("^.*\\) ?(const |noexcept |override |-> [^{]*)*\\{$");
  const std::regex statement("^ *(\\} )?(if|for|while|switch|else|do|catch|namespace)\\b");
  const std::vector<std::string> lines = lines_of(file);
  size_t longest = 0;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    const size_t indentation = lines[i + 1].find_first_not_of(' ');
    if (!std::regex_match(lines[i], begin) || std::regex_search(lines[i], statement)) continue;
    if (indentation == std::string::npos || indentation < 2) continue;
    const std::string end = std::string(indentation - 2, ' ') + "}";
    size_t last = i + 1;
    while (last < lines.size() && !lines[last].starts_with(end)) ++last;
    longest = std::max(longest, last - i + 1);
  }
  return longest;
}

TEST(Size, FunctionsHaveAtMost80Lines) {
  for (const char* dir : {"src", "include", "tests", "tools", "bench", "examples"}) {
    for (const auto& file : sources_below(kRoot / dir)) {
      const std::string ending = file.extension().string();
      if (ending != ".h" && ending != ".cc") continue;
      const bool is_long = longest_function(file) > 80;
      EXPECT_EQ(is_long, kLongFunctions.contains(in_tree(file))) << in_tree(file);
    }
  }
}

// The files that each file includes or imports, as paths in the tree.
std::map<std::string, std::set<std::string>> read_dependencies() {
  const std::regex include("^\\s*#\\s*include\\s+\"(.*)\"");
  const std::regex import("^\\s*(?:from|import)\\s+([A-Za-z0-9_.]+)");
  std::map<std::string, std::set<std::string>> dependencies;
  for (const char* dir : {"src", "include", "tests", "tools", "bench", "examples"}) {
    for (const auto& file : sources_below(kRoot / dir)) {
      std::set<std::string>& used = dependencies[in_tree(file)];
      for (const auto& line : lines_of(file)) {
        std::smatch match;
        std::vector<fs::path> found;
        if (std::regex_search(line, match, include)) {
          for (const fs::path& root : {kRoot / "src", kRoot / "include", kRoot / "tests", file.parent_path()})
            found.push_back(root / match[1].str());
        } else if (file.extension() == ".py" && std::regex_search(line, match, import)) {
          std::string name = match[1];
          std::ranges::replace(name, '.', '/');
          for (const fs::path& root : {file.parent_path(), file.parent_path().parent_path(), kRoot / "tools"})
            found.push_back(root / (name + ".py"));
        }
        for (const fs::path& path : found) {
          if (fs::is_regular_file(path)) used.insert(in_tree(path));
        }
      }
    }
  }
  return dependencies;
}

TEST(Layers, NoTwoFilesIncludeEachOther) {
  const auto dependencies = read_dependencies();
  for (const auto& [file, used] : dependencies) {
    for (const std::string& other : used) {
      const auto back = dependencies.find(other);
      if (other == file || back == dependencies.end()) continue;
      EXPECT_FALSE(back->second.contains(file)) << file << " and " << other << " include each other";
    }
  }
}

// The linker keeps one of two functions with the same name, such as the destructors of two types.
TEST(Types, HaveOneDefinitionInTheProgram) {
  const std::regex definition(
      R"(^(?:struct|class|union|enum|enum class) (?:alignas\(\w+\) )?(\w+)(?: final)?(?: :| \{|$))");
  std::map<std::string, std::set<std::string>> files;
  for (const char* folder : {"src", "include"}) {
    for (const auto& path : sources_below(kRoot / folder)) {
      // Kernels are included into an unnamed namespace.
      if (path.extension() == ".py" || path.string().ends_with(".inc.h")) continue;
      std::vector<std::string> namespaces;
      for (const auto& line : lines_of(path)) {
        std::smatch match;
        if (line.starts_with("namespace ") && line.ends_with("{")) {
          namespaces.push_back(line.substr(10, line.size() - 11));
        } else if (line.starts_with("}  // namespace") && !namespaces.empty()) {
          namespaces.pop_back();
        } else if (std::regex_search(line, match, definition) &&
                   std::count(namespaces.begin(), namespaces.end(), "") == 0) {
          std::string name;
          for (const auto& outer : namespaces) name += outer;
          files[name + match[1].str()].insert(in_tree(path));
        }
      }
    }
  }
  EXPECT_GT(files.size(), 500u);
  for (const auto& [name, places] : files)
    EXPECT_EQ(places.size(), 1u) << name << " is defined in " << *places.begin() << " and "
                                 << *places.rbegin();
}

TEST(Words, ContainNoUnfinishedWork) {
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

TEST(Words, ContainNoPathsOfOneMachine) {
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

TEST(Words, NameDevicesOnlyInBackends) {
  const std::regex cuda("cuda_runtime|cudaMalloc|__CUDACC__|__AVX");
  for (const auto& file : sources_below(kRoot / "src")) {
    const std::string name = in_tree(file);
    if (name.rfind("src/backends/", 0) == 0 || name.rfind("src/comm/", 0) == 0) continue;
    for (const auto& line : lines_of(file))
      EXPECT_FALSE(std::regex_search(line, cuda)) << name << ": " << line;
  }
}

}  // namespace
