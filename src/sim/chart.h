// Draws charts as self-contained SVG without scripts and embedded fonts. Pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace quire::sim {

struct ChartLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending; a NaN in y leaves a gap
};

enum class ChartKind {
  kLines,
  kStackedAreas,  // areas are stacked; all lines have the same x values
};

struct Chart {
  std::string title;
  std::string x_label;
  std::string y_label;
  ChartKind kind = ChartKind::kLines;
  std::vector<ChartLine> lines;
  double y_max = 0.0;  // 0 = automatic
  bool log_y = false;  // logarithmic scale; for kLines with positive values only
  double goal = 0.0;   // position of a dashed horizontal line; 0 = none
  std::string goal_name;
  int colour = 0;  // palette index of the first line
};

// A chart of stacked bars.
struct BarChart {
  struct Bar {
    std::string name;
    std::vector<double> parts;  // [num_part_names], or one value without part names
  };
  std::string title;
  std::string y_label;
  std::vector<std::string> part_names;
  std::vector<Bar> bars;
  double y_max = 0.0;  // 0 = automatic
  int decimals = 1;    // decimals of the bar labels
  int colour = 0;
};

// Horizontal bars over time, one above another, each of parts that follow one another.
struct Timeline {
  struct Row {
    double begin = 0.0;
    std::vector<double> ends;  // [part_names], ascending: where the parts end
  };
  std::string title;
  std::string x_label;
  std::string y_label;
  std::vector<std::string> part_names;
  std::vector<Row> rows;  // from top to bottom
  int colour = 0;         // palette index of the first part
};

// Returns one panel for svg_page().
std::string draw(const Chart& chart);
std::string draw(const BarChart& chart);
std::string draw(const Timeline& chart);

// Returns an SVG document with a title, a subtitle and the panels from top to bottom.
std::string svg_page(const std::string& title, const std::string& subtitle,
                     const std::vector<std::string>& panels);

}  // namespace quire::sim
