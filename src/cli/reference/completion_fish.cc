// Completion for fish.
#include <algorithm>

#include "base/strings.h"
#include "cli/reference/command_reference.h"

namespace quire::cli {
namespace {

constexpr const char* kFishHead = R"(# fish completion for quire; written by: quire completion fish

# Succeeds if the command on the command line is one of the arguments: serve, or bench-serve for `quire bench serve`.
function __quire_at
    set -l words (commandline -opc)
    set -l command "$words[2]"
    if contains -- "$command" GROUPS; and set -q words[3]
        set command "$command-$words[3]"
    end
    contains -- "$command" $argv
end

function __quire_models
    quire list 2>/dev/null | string match -rg '^ *(\S+/\S+)'
end

complete -c quire -f
)";

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string token(const CommandReference& command) {
  std::string name = command.name.empty() ? "''" : command.name;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string value_of(const FlagReference& flag) {
  switch (flag.kind) {
    case ValueKind::kNone:
      return "";
    case ValueKind::kFile:
      return " -r -F";
    case ValueKind::kDirectory:
      return " -x -a '(__fish_complete_directories)'";
    case ValueKind::kChoice:
      return " -x -a " + fish_quoted(join(flag.choices, " "));
    case ValueKind::kModel:
    case ValueKind::kAny:
      break;
  }
  return " -x";
}

// Lines of `complete` with the commands they are for, in the order in which they were added first.
class Lines {
 public:
  void add(const std::string& line, const std::string& command) {
    auto found =
        std::find_if(lines_.begin(), lines_.end(), [&](const auto& item) { return item.first == line; });
    if (found == lines_.end()) found = lines_.insert(found, {line, {}});
    found->second.push_back(command);
  }
  std::string text() const {
    std::string out;
    for (const auto& [line, commands] : lines_)
      out += cat("complete -c quire -n \"__quire_at ", join(commands, " "), "\"", line, "\n");
    return out;
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> lines_;
};

void add_command_lines(Lines& lines, const CommandReference& command) {
  const std::string at = token(command);
  for (const CommandReference& child : command.subcommands)
    lines.add(cat(" -a ", child.name.substr(child.name.rfind(' ') + 1), " -d ", fish_quoted(child.summary)),
              at);
  for (const FlagReference& argument : command.positionals) {
    if (argument.kind == ValueKind::kModel) lines.add(" -F -a '(__quire_models)'", at);
    if (argument.kind == ValueKind::kChoice) lines.add(" -a " + fish_quoted(join(argument.choices, " ")), at);
  }
  for (const FlagGroup& group : command.groups) {
    for (const FlagReference& flag : group.flags) {
      for (const std::string& name : flag.names) {
        const std::string option = name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
        lines.add(option + value_of(flag) + " -d " + fish_quoted(flag.description), at);
      }
    }
  }
}

}  // namespace

std::string fish_completion(const CommandReference& program) {
  Lines lines;
  std::string groups;
  add_command_lines(lines, program);
  for (const CommandReference& command : program.subcommands) {
    if (command.subcommands.empty()) continue;
    groups += (groups.empty() ? "" : " ") + command.name;
    add_command_lines(lines, command);
  }
  for (const CommandReference& command : runnable_commands(program)) add_command_lines(lines, command);
  std::string head = kFishHead;
  head.replace(head.find("GROUPS"), 6, groups);
  return head + lines.text();
}

}  // namespace quire::cli
