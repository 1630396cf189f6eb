#include "cli/bench/load_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace quire::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

// A request with a token after `ttft` seconds and three more, `gap` seconds apart.
RequestRecord record(double begin, double ttft, double gap) {
  RequestRecord r{.begin = begin, .prompt_tokens = 10, .output_tokens = 4};
  for (int i = 0; i < 4; ++i) {
    r.chunk_times.push_back(begin + ttft + i * gap);
    r.chunk_tokens.push_back(1);
  }
  return r;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

constexpr const char* kWaiting = "fill=\"#d55e00\"";  // also in the legend

TEST(BenchLoadPlot, CountsRequestsByLatency) {
  // Edges belong to the bin that begins there.
  const std::string svg = load_plot(
      "s", {record(100.0, 0.002, 0.0007), record(100.0, 0.0049, 0.0007), record(101.0, 0.3, 0.0007)});
  for (const char* bin :
       {"2\u20135", "5\u201310", "10\u201320", "100\u2013200", "200\u2013500", "0.5\u20131"})
    EXPECT_THAT(svg, HasSubstr(std::string(">") + bin + "<")) << bin;
  EXPECT_THAT(svg, Not(HasSubstr(">1\u20132<")));
  EXPECT_THAT(svg, Not(HasSubstr(">500\u20131000<")));
}

TEST(BenchLoadPlot, LeavesOutFailedRequests) {
  std::vector<RequestRecord> records = {record(1.0, 0.1, 0.01), record(1.1, 0.1, 0.01)};
  records.push_back({.begin = 1.2, .error = "HTTP 500"});
  EXPECT_EQ(count(load_plot("s", records), kWaiting), 2U + 1U);
}

TEST(BenchLoadPlot, ShowsSomeOfManyRequests) {
  std::vector<RequestRecord> records;
  for (int i = 0; i < 250; ++i) records.push_back(record(0.01 * i, 0.1, 0.01));
  const std::string svg = load_plot("s", records);
  EXPECT_THAT(svg, HasSubstr("Requests: one of 3"));
  EXPECT_EQ(count(svg, kWaiting), 84U + 1U);
}

TEST(BenchLoadPlot, WithoutRequestsHasNoBars) {
  const std::string svg = load_plot("a < b", {});
  EXPECT_THAT(svg, HasSubstr("a &lt; b"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace quire::cli
