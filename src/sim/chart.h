// Charts as self-contained SVG: no scripts, no fonts of their own, readable on white. Pure functions; any
// thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace quire::sim {

struct ChartLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending; a y that is not a number leaves a gap
};

enum class ChartKind {
  kLines,
  kStackedAreas,  // each line's area stands on the one before; all have the same x
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  ChartKind kind = ChartKind::kLines;
  std::vector<ChartLine> lines;
  double y_max = 0.0;  // 0: what the lines need
  bool log_y = false;  // powers of ten; lines only, values above 0
  double goal = 0.0;   // a dashed horizontal line; 0: none
  std::string goal_name;
  int colour = 0;  // of the first line; the following take the next
};

// Bars beside each other, each a stack of parts.
struct BarChart {
  struct Bar {
    std::string name;
    std::vector<double> parts;  // [part_names], or one where there are no names
  };
  std::string title;
  std::string y_label;
  std::vector<std::string> part_names;
  std::vector<Bar> bars;
  double y_max = 0.0;  // 0: what the bars need
  int decimals = 1;    // of the numbers in the bars
  int colour = 0;
};

// One panel, to be put on a page.
std::string draw(const Chart& chart);
std::string draw(const BarChart& chart);

// The panels one under the other, under a title and a smaller line of text: a whole SVG document.
std::string svg_page(const std::string& title, const std::string& subtitle,
                     const std::vector<std::string>& panels);

}  // namespace quire::sim
