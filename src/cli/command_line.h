// Translates a command line before it is parsed: replaces names of commands and flags that other programs
// have, and reports mistakes together with what to type.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/suggestions.h"

namespace quire::cli {

struct CommandLine {
  std::vector<std::string> arguments;  // for the parser
  std::vector<std::string> notes;      // lines for stderr: flags without effect
};

// Translates the arguments of the program, without its name. No arguments and "help COMMAND" become --help;
// commands, flags and values of other programs (foreign_flags.h), and flags with "_" for "-", become those of
// quire. The result can be translated again. Throws UsageError for a command or flag that does not exist or
// is not available.
CommandLine translate_command_line(const CLI::App& app, std::vector<std::string> arguments);

}  // namespace quire::cli
