// No test asserts how long something takes: the files below tests/ that read a clock are listed in
// tests/clocks.txt.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "unit/project/source_tree.h"

namespace {

using quire::test::in_tree;
using quire::test::kRoot;
using quire::test::lines_of;
namespace fs = std::filesystem;

// Files that may read a clock, with the reason.
std::map<std::string, std::string> listed_files() {
  std::map<std::string, std::string> files;
  for (const std::string& line : lines_of(kRoot / "tests/clocks.txt")) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string file, reason;
    words >> file >> std::ws;
    std::getline(words, reason);
    files[file] = reason;
  }
  return files;
}

// The first line of a file that reads the time, or the processor time of a process or thread; empty if there
// is none.
std::string reads_clock(const fs::path& path) {
  static const std::regex clock(
      R"(\b(monotonic|perf_counter|process_time|thread_time)(_ns)?\(|\btime\.time(_ns)?\(|\b(steady|system|high_resolution)_clock\b|)"
      R"(\bclock_gettime\b|\bgettimeofday\b|\bstd::clock\b|\bgetrusage\b|\bru_[us]time\b|/schedstat\b|\bSC_CLK_TCK\b|)"
      R"(\bperformance\.now\b|\bDate\.now\b)");
  for (const std::string& line : lines_of(path)) {
    if (std::regex_search(line, clock)) return line;
  }
  return "";
}

TEST(Clocks, AreReadByListedFilesOnly) {
  const std::set<std::string> endings = {".h", ".cc", ".py", ".sh", ".js"};
  const std::map<std::string, std::string> listed = listed_files();
  std::set<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / "tests")) {
    const std::string name = in_tree(entry.path());
    if (!endings.contains(entry.path().extension().string()) || name == "tests/unit/project/clocks_test.cc")
      continue;
    const std::string line = reads_clock(entry.path());
    if (line.empty()) continue;
    found.insert(name);
    EXPECT_TRUE(listed.contains(name)) << name << " reads a clock, see tests/clocks.txt: " << line;
  }
  for (const auto& [name, reason] : listed) {
    EXPECT_TRUE(found.contains(name)) << name << " is listed in tests/clocks.txt and reads no clock";
    EXPECT_FALSE(reason.empty()) << name;
  }
}

}  // namespace
