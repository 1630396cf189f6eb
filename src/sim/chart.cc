#include "sim/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/strings.h"

namespace quire::sim {

namespace {

constexpr double kWidth = 860.0;
constexpr double kPanelHeight = 300.0;
constexpr double kHeader = 64.0;
// Margins of the plot area within a panel.
constexpr double kLeft = 84.0;
constexpr double kTop = 40.0;
constexpr double kPlotWidth = 590.0;
constexpr double kPlotHeight = 200.0;
constexpr double kLegend = kLeft + kPlotWidth + 18.0;

// The palette of Okabe and Ito, which is safe for color-blind readers.
constexpr std::array<const char*, 7> kColours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                 "#e69f00", "#56b4e9", "#777777"};

const char* colour_of(int index) {
  return kColours[static_cast<size_t>(index) % kColours.size()];
}

std::string escape(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string num(double value) {
  return fixed(value, 1);
}

std::string text(double x, double y, const std::string& content, const std::string& attributes) {
  return cat("<text x=\"", num(x), "\" y=\"", num(y), "\" ", attributes, ">", escape(content), "</text>\n");
}

std::string line(double x1, double y1, double x2, double y2, const std::string& attributes) {
  return cat("<line x1=\"", num(x1), "\" y1=\"", num(y1), "\" x2=\"", num(x2), "\" y2=\"", num(y2), "\" ",
             attributes, "/>\n");
}

std::string rect(double x, double y, double width, double height, const std::string& attributes) {
  return cat("<rect x=\"", num(x), "\" y=\"", num(y), "\" width=\"", num(width), "\" height=\"", num(height),
             "\" ", attributes, "/>\n");
}

// Returns a step of 1, 2 or 5 times a power of ten that divides `range` into about `count` parts.
double nice_step(double range, int count) {
  const double rough = range / count;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) return factor * power;
  }
  return 10.0 * power;
}

// Formats a tick label: 1200000 -> "1.2M", 0.05 -> "0.05".
std::string tick_text(double value) {
  const auto trimmed = [](double v, int decimals) {
    std::string out = fixed(v, decimals);
    if (out.find('.') == std::string::npos) return out;
    while (out.back() == '0') out.pop_back();
    if (out.back() == '.') out.pop_back();
    return out;
  };
  const double size = std::abs(value);
  if (size >= 1e9) return trimmed(value / 1e9, 2) + "G";
  if (size >= 1e6) return trimmed(value / 1e6, 2) + "M";
  if (size >= 1e4) return trimmed(value / 1e3, 1) + "k";
  if (size >= 10.0 || size == 0.0) return trimmed(value, 1);
  return size >= 0.1 ? trimmed(value, 2) : trimmed(value, 5);
}

// Maps values of an axis to [0, 1].
struct Axis {
  double low = 0.0;
  double high = 1.0;
  bool log = false;
  std::vector<double> ticks;

  double place(double value) const {
    const double part =
        log ? (std::log10(std::max(value, low)) - std::log10(low)) / (std::log10(high) - std::log10(low))
            : (value - low) / (high - low);
    return std::clamp(part, 0.0, 1.0);
  }
};

Axis linear_axis(double low, double high, bool round_up) {
  Axis axis;
  axis.low = low;
  axis.high = high > low ? high : low + 1.0;
  const double step = nice_step(axis.high - axis.low, 5);
  if (round_up) axis.high = axis.low + std::ceil((axis.high - axis.low) / step - 1e-9) * step;
  // Multiply instead of adding steps, so that 0 is exact.
  for (auto i = static_cast<int64_t>(std::ceil(axis.low / step - 1e-9));
       static_cast<double>(i) * step <= axis.high + step * 1e-6; ++i)
    axis.ticks.push_back(static_cast<double>(i) * step);
  return axis;
}

// A logarithmic axis between multiples (1, 2 or 5) of powers of ten. Short axes have a tick at each multiple.
Axis log_axis(double low, double high) {
  Axis axis;
  axis.log = true;
  std::vector<double> steps;
  const int first = static_cast<int>(std::floor(std::log10(low) + 1e-9));
  const int last = static_cast<int>(std::ceil(std::log10(high) - 1e-9));
  for (int power = first; power <= last + 1; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) steps.push_back(factor * std::pow(10.0, power));
  }
  size_t begin = 0;
  while (steps[begin + 1] <= low * (1.0 + 1e-9)) ++begin;
  size_t end = begin + 1;
  while (steps[end] < high * (1.0 - 1e-9)) ++end;
  axis.low = steps[begin];
  axis.high = steps[end];
  for (size_t i = begin; i <= end; ++i) {
    if (end - begin <= 9 || i % 3 == 0) axis.ticks.push_back(steps[i]);
  }
  return axis;
}

double to_x(const Axis& axis, double value) {
  return kLeft + axis.place(value) * kPlotWidth;
}
double to_y(const Axis& axis, double value) {
  return kTop + (1.0 - axis.place(value)) * kPlotHeight;
}

std::string frame(const std::string& title, const std::string& y_label, const Axis& y) {
  std::string out = text(kLeft, kTop - 14.0, title, "class=\"h\"");
  for (const double tick : y.ticks) {
    const double at = to_y(y, tick);
    out += line(kLeft, at, kLeft + kPlotWidth, at, "class=\"g\"");
    out += text(kLeft - 8.0, at + 4.0, tick_text(tick), "text-anchor=\"end\"");
  }
  const double middle = kTop + kPlotHeight / 2.0;
  out += text(22.0, middle, y_label,
              cat("text-anchor=\"middle\" transform=\"rotate(-90 22 ", num(middle), ")\""));
  return out;
}

std::string x_ticks(const Axis& x, const std::string& label) {
  std::string out;
  for (const double tick : x.ticks) {
    const double at = to_x(x, tick);
    out += line(at, kTop + kPlotHeight, at, kTop + kPlotHeight + 5.0, "class=\"a\"");
    out += text(at, kTop + kPlotHeight + 18.0, tick_text(tick), "text-anchor=\"middle\"");
  }
  return out + text(kLeft + kPlotWidth / 2.0, kTop + kPlotHeight + 38.0, label, "text-anchor=\"middle\"");
}

std::string axis_lines() {
  return line(kLeft, kTop + kPlotHeight, kLeft + kPlotWidth, kTop + kPlotHeight, "class=\"a\"") +
         line(kLeft, kTop, kLeft, kTop + kPlotHeight, "class=\"a\"");
}

std::string legend_entry(int index, const std::string& name, const char* colour) {
  const double y = kTop + 8.0 + 20.0 * index;
  return rect(kLegend, y - 9.0, 12.0, 12.0, cat("fill=\"", colour, "\"")) +
         text(kLegend + 18.0, y + 2.0, name, "");
}

std::string polyline(const ChartLine& chart_line, const Axis& x, const Axis& y, const char* colour) {
  std::string out;
  std::string path;
  const auto end_piece = [&] {
    if (!path.empty())
      out += cat("<path d=\"", path, "\" fill=\"none\" stroke=\"", colour, "\" stroke-width=\"1.8\"/>\n");
    path.clear();
  };
  for (const auto& [px, py] : chart_line.points) {
    if (!std::isfinite(py)) {
      end_piece();
      continue;
    }
    path += cat(path.empty() ? "M" : "L", num(to_x(x, px)), " ", num(to_y(y, py)));
  }
  end_piece();
  // Mark the points of short lines.
  if (chart_line.points.size() > 24) return out;
  for (const auto& [px, py] : chart_line.points) {
    if (!std::isfinite(py)) continue;
    out += cat("<circle cx=\"", num(to_x(x, px)), "\" cy=\"", num(to_y(y, py)), "\" r=\"3\" fill=\"", colour,
               "\"/>\n");
  }
  return out;
}

std::string stacked(const Chart& chart, const Axis& x, const Axis& y) {
  std::string out;
  std::vector<double> base(chart.lines.front().points.size(), 0.0);
  for (size_t l = 0; l < chart.lines.size(); ++l) {
    const auto& points = chart.lines[l].points;
    std::string path;
    for (size_t i = 0; i < points.size(); ++i) {
      path += cat(i == 0 ? "M" : "L", num(to_x(x, points[i].first)), " ",
                  num(to_y(y, base[i] + points[i].second)));
    }
    for (size_t i = points.size(); i-- > 0;) {
      path += cat("L", num(to_x(x, points[i].first)), " ", num(to_y(y, base[i])));
      base[i] += points[i].second;
    }
    out += cat("<path d=\"", path, "Z\" fill=\"", colour_of(chart.colour + static_cast<int>(l)), "\"/>\n");
  }
  return out;
}

// The largest value and the smallest positive value of a chart.
std::pair<double, double> value_range(const Chart& chart) {
  double low = 0.0, high = chart.goal;
  std::vector<double> sums;
  for (const ChartLine& chart_line : chart.lines) {
    sums.resize(std::max(sums.size(), chart_line.points.size()), 0.0);
    for (size_t i = 0; i < chart_line.points.size(); ++i) {
      const double value = chart_line.points[i].second;
      if (!std::isfinite(value)) continue;
      sums[i] += value;
      high = std::max(high, chart.kind == ChartKind::kStackedAreas ? sums[i] : value);
      if (value > 0.0) low = low == 0.0 ? value : std::min(low, value);
    }
  }
  return {low, high};
}

}  // namespace

std::string draw(const Chart& chart) {
  double x_low = 0.0, x_high = 0.0;
  bool first = true;
  for (const ChartLine& chart_line : chart.lines) {
    for (const auto& [px, py] : chart_line.points) {
      x_low = first ? px : std::min(x_low, px);
      x_high = first ? px : std::max(x_high, px);
      first = false;
    }
  }
  const auto [low, high] = value_range(chart);
  const Axis x = linear_axis(x_low, x_high, false);
  const Axis y = chart.log_y && low > 0.0
                     ? log_axis(low, high)
                     : linear_axis(0.0, chart.y_max > 0.0 ? chart.y_max : high, chart.y_max <= 0.0);
  std::string out;
  // Draw areas below the grid and lines above it.
  if (chart.kind == ChartKind::kStackedAreas && !chart.lines.empty()) out += stacked(chart, x, y);
  out += frame(chart.title, chart.y_label, y);
  out += x_ticks(x, chart.x_label);
  for (size_t l = 0; l < chart.lines.size(); ++l) {
    const char* colour = colour_of(chart.colour + static_cast<int>(l));
    if (chart.kind == ChartKind::kLines) out += polyline(chart.lines[l], x, y, colour);
    out += legend_entry(static_cast<int>(l), chart.lines[l].name, colour);
  }
  if (chart.goal > 0.0) {
    const double at = to_y(y, chart.goal);
    out += line(kLeft, at, kLeft + kPlotWidth, at, "stroke=\"#333\" stroke-dasharray=\"6 4\"");
    out += text(kLeft + 6.0, at - 5.0, chart.goal_name, "");
  }
  return out + axis_lines();
}

std::string draw(const BarChart& chart) {
  double high = chart.y_max;
  for (const BarChart::Bar& bar : chart.bars) {
    double sum = 0.0;
    for (const double part : bar.parts) sum += part;
    // Leave room for the label above the bar.
    if (chart.y_max <= 0.0) high = std::max(high, 1.08 * sum);
  }
  const Axis y = linear_axis(0.0, high, chart.y_max <= 0.0);
  std::string out = frame(chart.title, chart.y_label, y);
  const double slot = kPlotWidth / static_cast<double>(std::max<size_t>(1, chart.bars.size()));
  const double width = std::min(90.0, 0.7 * slot);
  for (size_t b = 0; b < chart.bars.size(); ++b) {
    const double x = kLeft + (static_cast<double>(b) + 0.5) * slot;
    double base = 0.0;
    for (size_t p = 0; p < chart.bars[b].parts.size(); ++p) {
      const double value = chart.bars[b].parts[p];
      const double top = to_y(y, base + value);
      const double height = to_y(y, base) - top;
      base += value;
      if (height <= 0.0) continue;
      out += rect(x - width / 2.0, top, width, height,
                  cat("fill=\"", colour_of(chart.colour + static_cast<int>(p)), "\""));
      if (height >= 14.0 && chart.bars[b].parts.size() > 1)
        out += text(x, top + height / 2.0 + 4.0, fixed(value, chart.decimals),
                    "text-anchor=\"middle\" class=\"w\"");
    }
    if (chart.bars[b].parts.size() == 1)
      out += text(x, to_y(y, base) - 5.0, fixed(base, chart.decimals), "text-anchor=\"middle\"");
    out += text(x, kTop + kPlotHeight + 18.0, chart.bars[b].name, "text-anchor=\"middle\"");
  }
  for (size_t p = 0; p < chart.part_names.size(); ++p)
    out +=
        legend_entry(static_cast<int>(p), chart.part_names[p], colour_of(chart.colour + static_cast<int>(p)));
  return out + axis_lines();
}

std::string draw(const Timeline& chart) {
  double last = 0.0;
  for (const Timeline::Row& row : chart.rows)
    last = std::max(last, row.ends.empty() ? row.begin : row.ends.back());
  const Axis x = linear_axis(0.0, last, false);
  std::string out = frame(chart.title, chart.y_label, Axis{});
  const double slot = kPlotHeight / static_cast<double>(std::max<size_t>(1, chart.rows.size()));
  const double height = slot > 4.0 ? std::min(24.0, 0.8 * slot) : slot;
  for (size_t r = 0; r < chart.rows.size(); ++r) {
    const double y = kTop + (static_cast<double>(r) + 0.5) * slot - height / 2.0;
    double begin = chart.rows[r].begin;
    for (size_t p = 0; p < chart.rows[r].ends.size(); ++p) {
      const double end = chart.rows[r].ends[p];
      out += rect(to_x(x, begin), y, to_x(x, end) - to_x(x, begin), height,
                  cat("fill=\"", colour_of(chart.colour + static_cast<int>(p)), "\""));
      begin = end;
    }
  }
  for (size_t p = 0; p < chart.part_names.size(); ++p)
    out +=
        legend_entry(static_cast<int>(p), chart.part_names[p], colour_of(chart.colour + static_cast<int>(p)));
  return out + x_ticks(x, chart.x_label) + axis_lines();
}

std::string svg_page(const std::string& title, const std::string& subtitle,
                     const std::vector<std::string>& panels) {
  const double height = kHeader + kPanelHeight * static_cast<double>(panels.size());
  std::string out = cat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", num(kWidth), " ",
                        num(height), "\" width=\"", num(kWidth), "\" height=\"", num(height),
                        "\" role=\"img\">\n<title>", escape(title), "</title>\n");
  out +=
      "<style>text{font:12px sans-serif;fill:#222}.t{font-size:18px;font-weight:bold}.h{font-size:14px;"
      "font-weight:bold}.w{fill:#fff}.g{stroke:#000;stroke-opacity:.13}.a{stroke:#333}</style>\n";
  out += rect(0.0, 0.0, kWidth, height, "fill=\"#fff\"");
  out += text(24.0, 30.0, title, "class=\"t\"");
  out += text(24.0, 50.0, subtitle, "");
  for (size_t i = 0; i < panels.size(); ++i) {
    out += cat("<g transform=\"translate(0 ", num(kHeader + kPanelHeight * static_cast<double>(i)), ")\">\n",
               panels[i], "</g>\n");
  }
  return out + "</svg>\n";
}

}  // namespace quire::sim
