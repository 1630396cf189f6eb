// A Markdown table as aligned columns.
#pragma once

#include <string>
#include <vector>

namespace quire::cli {

// Renders the lines of a table for a terminal with `width` columns: cells are wrapped if the table is wider.
// Returns an empty string if the lines are not a table, because the second one is not a delimiter row.
std::string render_table(const std::vector<std::string>& lines, int width);

}  // namespace quire::cli
