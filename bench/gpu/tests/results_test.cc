#include "../programs/results.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace probe {
namespace {

std::string read(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Files {
  std::string records = testing::TempDir() + "/results_test.records." + std::to_string(getpid());
  std::string table = records + ".table";
  ~Files() {
    std::remove(records.c_str());
    std::remove(table.c_str());
  }
};

TEST(Results, WritesATableAndOneJsonObjectPerLine) {
  const Files files;
  FILE* table = std::fopen(files.table.c_str(), "w");
  {
    Results results(files.records, table);
    results.add("device memory", {{"", "read kernel"}, {"size", "8 MiB"}, {"", "4 blocks"}}, 4312.25, "GB/s");
    results.add_text("device", "a \"GPU\"");
  }
  std::fclose(table);
  EXPECT_EQ(
      read(files.records),
      "{\"measurement\": \"device memory\", \"size\": \"8 MiB\", \"variant\": \"read kernel, 4 blocks\", "
      "\"value\": 4312.25, \"unit\": \"GB/s\"}\n"
      "{\"measurement\": \"device\", \"text\": \"a \\\"GPU\\\"\"}\n");
  const std::string line = "  device memory, read kernel, size 8 MiB, 4 blocks";
  EXPECT_EQ(read(files.table),
            line + std::string(78 - line.size(), ' ') + "       4312 GB/s\n  device: a \"GPU\"\n");
}

TEST(Results, KeepsEarlierLinesWhenTheProgramDies) {
  const Files files;
  const auto crash = [&] {
    Results results(files.records, stderr);
    results.add("one", {}, 1, "us");
    std::abort();
  };
  EXPECT_DEATH(crash(), "one");
  EXPECT_EQ(read(files.records), "{\"measurement\": \"one\", \"value\": 1, \"unit\": \"us\"}\n");
}

TEST(Results, ReportsAnUnwritableFile) {
  EXPECT_THROW(Results("/nonexistent/records", stdout), std::runtime_error);
}

TEST(JsonString, EscapesQuotesAndControlCharacters) {
  EXPECT_EQ(json_string("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
}

TEST(JsonNumber, WritesNullForNumbersThatJsonLacks) {
  EXPECT_EQ(json_number(0.1), "0.10000000000000001");
  EXPECT_EQ(json_number(NAN), "null");
  EXPECT_EQ(json_number(-INFINITY), "null");
}

TEST(TableNumber, HasFourOrFiveSignificantDigits) {
  EXPECT_EQ(table_number(4296015872), "4296015872");
  EXPECT_EQ(table_number(4312.25), "4312");
  EXPECT_EQ(table_number(412.25), "412.2");
  EXPECT_EQ(table_number(1.23456), "1.235");
  EXPECT_EQ(table_number(2.6e-7), "2.6e-07");
  EXPECT_EQ(table_number(0), "0");
}

}  // namespace
}  // namespace probe
