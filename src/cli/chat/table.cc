#include "cli/chat/table.h"

#include <algorithm>
#include <numeric>

#include "cli/chat/inline_markup.h"

namespace quire::cli {
namespace {

constexpr int kMinColumn = 4;  // columns that are wrapped are not narrower
constexpr int kSeparator = 3;  // columns between two cells
constexpr int kUnlimited = 1 << 20;

enum class Alignment { kLeft, kCenter, kRight };

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// The cells of a row: separated by bars that are neither escaped nor in a code span.
std::vector<std::string> cells_of(std::string_view line) {
  line = trimmed(line);
  if (line.starts_with('|')) line.remove_prefix(1);
  std::vector<std::string> cells(1);
  bool code = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\' && i + 1 < line.size() && line[i + 1] == '|') {
      cells.back() += line[++i];
    } else if (line[i] == '|' && !code) {
      cells.emplace_back();
    } else {
      if (line[i] == '`') code = !code;
      cells.back() += line[i];
    }
  }
  if (cells.size() > 1 && trimmed(cells.back()).empty()) cells.pop_back();
  for (std::string& cell : cells) cell = trimmed(cell);
  return cells;
}

bool is_delimiter_row(const std::vector<std::string>& cells) {
  return std::ranges::all_of(cells, [](const std::string& cell) {
    return cell.find('-') != std::string::npos && cell.find_first_not_of("-:") == std::string::npos;
  });
}

Alignment alignment_of(const std::string& delimiter) {
  const bool left = delimiter.starts_with(':');
  const bool right = delimiter.ends_with(':');
  return left && right ? Alignment::kCenter : right ? Alignment::kRight : Alignment::kLeft;
}

// The rendered lines of a cell, wrapped at `width`.
std::vector<std::string> render_cell(const std::string& cell, Style style, int width) {
  std::vector<Span> spans;
  InlineParser parser(style);
  parser.feed(cell, spans);
  parser.finish(spans);
  std::string text;
  StyledWriter writer(width, text);
  writer.begin_line({}, {});
  for (const Span& span : spans) writer.write(span);
  writer.end_line();
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// Widths of the columns: those of the widest cells, reduced from the widest column on until they fit.
std::vector<int> fit_columns(std::vector<int> widths, int width) {
  const int available = width - kSeparator * static_cast<int>(widths.size() - 1);
  while (std::accumulate(widths.begin(), widths.end(), 0) > available) {
    const auto widest = std::ranges::max_element(widths);
    if (*widest <= kMinColumn) break;
    --*widest;
  }
  return widths;
}

std::string aligned(const std::string& line, int width, Alignment alignment) {
  const int room = std::max(0, width - rendered_width(line));
  const int left = alignment == Alignment::kLeft ? 0 : alignment == Alignment::kRight ? room : room / 2;
  return std::string(static_cast<size_t>(left), ' ') + line +
         std::string(static_cast<size_t>(room - left), ' ');
}

std::string render_row(const std::vector<std::string>& cells, Style style, const std::vector<int>& widths,
                       const std::vector<Alignment>& alignments) {
  std::vector<std::vector<std::string>> columns;
  size_t height = 1;
  for (size_t i = 0; i < widths.size(); ++i) {
    columns.push_back(render_cell(i < cells.size() ? cells[i] : "", style, widths[i]));
    height = std::max(height, columns.back().size());
  }
  std::string out;
  for (size_t row = 0; row < height; ++row) {
    std::string line;
    for (size_t i = 0; i < columns.size(); ++i) {
      if (i > 0) line += " │ ";
      line += aligned(row < columns[i].size() ? columns[i][row] : "", widths[i], alignments[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

}  // namespace

std::string render_table(const std::vector<std::string>& lines, int width) {
  if (lines.size() < 2) return {};
  std::vector<std::vector<std::string>> rows;
  rows.reserve(lines.size());
  for (const std::string& line : lines) rows.push_back(cells_of(line));
  if (!is_delimiter_row(rows[1])) return {};
  std::vector<Alignment> alignments;
  for (const std::string& cell : rows[1]) alignments.push_back(alignment_of(cell));
  rows.erase(rows.begin() + 1);
  alignments.resize(std::max(alignments.size(), rows[0].size()), Alignment::kLeft);

  std::vector<int> widths(alignments.size(), 1);
  for (const auto& row : rows) {
    for (size_t i = 0; i < std::min(row.size(), widths.size()); ++i)
      widths[i] = std::max(widths[i], rendered_width(render_cell(row[i], 0, kUnlimited)[0]));
  }
  widths = fit_columns(widths, width);

  std::string out = render_row(rows[0], kBold, widths, alignments);
  for (size_t i = 0; i < widths.size(); ++i) {
    if (i > 0) out += "─┼─";
    for (int column = 0; column < widths[i]; ++column) out += "─";
  }
  out += "\n";
  for (size_t i = 1; i < rows.size(); ++i) out += render_row(rows[i], 0, widths, alignments);
  return out;
}

}  // namespace quire::cli
