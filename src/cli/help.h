// The texts of --help and --help-all.
#pragma once

#include <CLI/CLI.hpp>
#include <span>
#include <string>
#include <string_view>

#include "cli/reference/command_reference.h"

namespace quire::cli {

// What --help shows of a command (help_table.cc).
struct CommandHelp {
  std::string_view command;  // "serve", "bench latency"
  std::string_view flags;    // at most ten, separated by spaces; empty = all
  std::string_view examples[2];
};

// Commands under a heading in the help of the program. A command that no group has is listed in the last one.
struct HelpGroup {
  std::string_view title;
  std::string_view commands;
};

std::span<const CommandHelp> help_of_commands();
std::span<const HelpGroup> help_groups();

// Breaks text at spaces into lines of at most `width` columns; a longer word has a line of its own. Lines
// after the first begin with `indent` spaces, which count.
std::string wrapped(std::string_view text, int width, int indent);

// The help of the program or of a command for a terminal of this width; all: with every flag.
std::string help_text(const CLI::App& app, bool all, int columns);

// Lets the program and all commands that are added afterwards print these texts. The width is that of the
// terminal, or COLUMNS.
void use_help_texts(CLI::App& app);

}  // namespace quire::cli
