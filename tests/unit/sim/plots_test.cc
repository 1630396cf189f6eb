#include "sim/plots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "sim/chart.h"

namespace quire::sim {
namespace {

using testing::HasSubstr;
using testing::Not;

// Checks that tags are balanced, and that the document loads no resource and runs no script.
void expect_self_contained(const std::string& svg) {
  EXPECT_THAT(svg, testing::StartsWith("<svg xmlns="));
  for (const char* forbidden : {"<script", "href", "url(", "@import", "<image", "nan", "inf"})
    EXPECT_THAT(svg, Not(HasSubstr(forbidden)));
  std::vector<std::string> open;
  for (size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const size_t end = svg.find('>', at);
    ASSERT_NE(end, std::string::npos);
    if (svg[end - 1] == '/') continue;
    const bool closes = svg[at + 1] == '/';
    const size_t begin = at + (closes ? 2 : 1);
    const std::string name = svg.substr(begin, svg.find_first_of(" >", begin) - begin);
    if (!closes) {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty());
    EXPECT_EQ(open.back(), name);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

SimResult some_result(Trace& trace) {
  Distribution distribution;
  distribution.num_requests = 200;
  distribution.input_mean = 100.0;
  distribution.output_mean = 30.0;
  distribution.max_len = 900;
  trace = draw_trace(distribution, 1);
  set_arrivals(trace, 2.0, 1.0, 1);
  SimOptions options;
  options.replica.layout.num_blocks = 128;
  return simulate(trace, CostModel(LinearCost{0.05, 1e-4, 0.0, 0.0, 0.0}), options);
}

TEST(Plots, AreCompleteDocumentsWithLabelledAxes) {
  Trace trace;
  const SimResult result = some_result(trace);
  const std::string latency = latency_plot("a <trace> & more", trace, result, 1);
  expect_self_contained(latency);
  EXPECT_THAT(latency, HasSubstr("a &lt;trace&gt; &amp; more"));
  for (const char* label : {"arrival (s)", ">ms<", "p50", "p99", "TTFT", "TPOT"})
    EXPECT_THAT(latency, HasSubstr(label));
  const std::string memory = memory_plot("trace", result);
  expect_self_contained(memory);
  for (const char* label : {"% of the pool", "time (s)", "filled", "running"})
    EXPECT_THAT(memory, HasSubstr(label));
}

TEST(Plots, NameTheComparedManagers) {
  KvSums sums;
  KvUse use;
  use.total = 100;
  use.held = 60;
  use.filled = 40;
  use.reserved = 15;
  use.unused = 5;
  use.num_running = 3;
  sums.add(use);
  const std::string managers = managers_plot("trace", {{"paged", sums}, {"oracle", sums}});
  expect_self_contained(managers);
  for (const char* label : {"paged", "oracle", "external", ">40.0<", ">15.0<", ">3.0<"})
    EXPECT_THAT(managers, HasSubstr(label));
  const std::string replicas = capacity_plot("trace", {3, {{1, 0.2}, {2, 0.5}, {3, 0.95}, {4, 0.99}}}, 0.9);
  expect_self_contained(replicas);
  EXPECT_THAT(replicas, HasSubstr("target"));
  const std::string sharing = sharing_plot("trace", {{"parallel sampling", 2, 0.1}, {"beam search", 2, 0.4}});
  expect_self_contained(sharing);
  EXPECT_THAT(sharing, HasSubstr(">40.0<"));
}

TEST(Chart, DrawsAnEmptyChart) {
  Chart chart;
  chart.title = "empty";
  chart.lines = {{"nothing", {}}, {"gaps", {{0.0, std::numeric_limits<double>::quiet_NaN()}}}};
  expect_self_contained(svg_page("t", "s", {draw(chart), draw(BarChart{})}));
  chart.log_y = true;
  expect_self_contained(svg_page("t", "s", {draw(chart)}));
}

}  // namespace
}  // namespace quire::sim
