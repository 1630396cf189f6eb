// The commands and flags of the program as plain records, read from the parser. The manual page and the shell
// completions are written from them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace quire::cli {

// Kind of the values that a shell offers for a flag or an argument.
enum class ValueKind { kNone, kAny, kChoice, kFile, kDirectory, kModel };

struct FlagReference {
  std::vector<std::string> names;    // "-o", "--output"; "MODEL" for a positional argument
  std::string value;                 // "FILE"; empty = no value
  std::vector<std::string> choices;  // all valid values, or empty
  std::string default_value;
  std::string description;
  ValueKind kind = ValueKind::kNone;
  bool required = false;
  bool repeatable = false;
  bool value_optional = false;

  bool operator==(const FlagReference&) const = default;
};

struct FlagGroup {
  std::string title;  // "Options", "Engine"
  std::vector<FlagReference> flags;

  bool operator==(const FlagGroup&) const = default;
};

struct CommandReference {
  std::string name;  // "serve"; "bench serve" for a command of bench; empty for the program
  std::string summary;
  std::string footer;  // text after the flags in the help
  std::vector<FlagReference> positionals;
  std::vector<FlagGroup> groups;
  std::vector<CommandReference> subcommands;
};

CommandReference read_commands(const CLI::App& app);

// All commands that can be run: those with subcommands are replaced by these.
std::vector<CommandReference> runnable_commands(const CommandReference& program);

// The groups that at least three commands share.
std::vector<FlagGroup> shared_groups(const std::vector<CommandReference>& commands);

// The texts of `quire completion` and `quire man`.
std::string bash_completion(const CommandReference& program);
std::string zsh_completion(const CommandReference& program);
std::string fish_completion(const CommandReference& program);
std::string manual_page(const CommandReference& program, const std::string& version);

}  // namespace quire::cli
