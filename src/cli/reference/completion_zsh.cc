// Completion for zsh.
#include <algorithm>

#include "base/strings.h"
#include "cli/reference/command_reference.h"

namespace quire::cli {
namespace {

constexpr const char* kZshHead = R"zsh(#compdef quire
# zsh completion for quire; written by: quire completion zsh

_quire_models() {
  local -a names
  names=(${(f)"$(_call_program models quire list 2>/dev/null | awk 'NR > 1 { print $1 }')"})
  _alternative 'models:model in the cache:compadd -a names' 'files:file or directory:_files'
}

)zsh";

// In single quotes; a backslash before the characters of `special`.
std::string zsh_quoted(const std::string& text, const std::string& special) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
      continue;
    }
    if (c == '\\' || special.find(c) != std::string::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string action(const FlagReference& flag) {
  switch (flag.kind) {
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kDirectory:
      return "_files -/";
    case ValueKind::kModel:
      return "_quire_models";
    case ValueKind::kChoice:
      return "(" + zsh_quoted(join(flag.choices, " "), "") + ")";
    case ValueKind::kAny:
    case ValueKind::kNone:
      break;
  }
  return " ";
}

// The argument of _arguments for each name of a flag.
std::string flag_specs(const FlagReference& flag, const std::string& indent) {
  std::string out;
  for (const std::string& name : flag.names) {
    const std::string others = flag.repeatable ? "*" : "(" + join(flag.names, " ") + ")";
    out += cat(indent, "'", others, name);
    if (flag.kind != ValueKind::kNone) out += name.starts_with("--") ? "=" : "+";
    out += cat("[", zsh_quoted(flag.description, "[]"), "]");
    if (flag.kind != ValueKind::kNone)
      out += cat(flag.value_optional ? "::" : ":", zsh_quoted(flag.value, ":"), ":", action(flag));
    out += "'\n";
  }
  return out;
}

std::string array_name(const FlagGroup& group) {
  std::string name = "_quire_flags_";
  for (const char c : group.title.substr(0, group.title.find(' ')))
    name += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

std::string function_name(const std::string& command) {
  std::string name = "_quire";
  if (!command.empty()) name += "_command_" + command;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

std::string group_specs(const CommandReference& command, const std::vector<FlagGroup>& shared) {
  std::string out;
  for (const FlagGroup& group : command.groups) {
    if (std::find(shared.begin(), shared.end(), group) != shared.end()) {
      out += cat("    $", array_name(group), "\n");
      continue;
    }
    for (const FlagReference& flag : group.flags) out += flag_specs(flag, "    ");
  }
  return out;
}

// A function that completes a command with subcommands, and passes the rest of the words to the subcommand.
std::string dispatcher(const CommandReference& command) {
  std::string out = cat(function_name(command.name), "() {\n");
  out += "  local -a specs commands\n  local context state line\n  specs=(\n" + group_specs(command, {}) +
         "  )\n";
  out += "  commands=(\n";
  for (const CommandReference& child : command.subcommands) {
    out +=
        cat("    '", child.name.substr(child.name.rfind(' ') + 1), ":", zsh_quoted(child.summary, ""), "'\n");
  }
  out += "  )\n";
  out += "  _arguments -C $specs '1:command:->command' '*::argument:->argument' && return\n";
  out += "  case $state in\n    command) _describe command commands ;;\n";
  out += cat("    argument) (( $+functions[",
             command.name.empty() ? "_quire_command" : function_name(command.name), "_$words[1]] )) && ",
             command.name.empty() ? "_quire_command" : function_name(command.name),
             "_$words[1] ;;\n  esac\n}\n\n");
  return out;
}

}  // namespace

std::string zsh_completion(const CommandReference& program) {
  const std::vector<CommandReference> commands = runnable_commands(program);
  const std::vector<FlagGroup> shared = shared_groups(commands);
  std::string out = kZshHead;
  for (const FlagGroup& group : shared) {
    out += cat("typeset -ga ", array_name(group), "\n", array_name(group), "=(\n");
    for (const FlagReference& flag : group.flags) out += flag_specs(flag, "  ");
    out += ")\n\n";
  }
  for (const CommandReference& command : commands) {
    out +=
        cat(function_name(command.name), "() {\n  local -a specs\n  specs=(\n", group_specs(command, shared));
    int position = 0;
    for (const FlagReference& argument : command.positionals) {
      const std::string place = argument.repeatable ? "*:" : cat(++position, argument.required ? ":" : "::");
      out += cat("    '", place, argument.value, ":", action(argument), "'\n");
    }
    out += "  )\n  _arguments $specs\n}\n\n";
  }
  for (const CommandReference& command : program.subcommands) {
    if (!command.subcommands.empty()) out += dispatcher(command);
  }
  out += dispatcher(program);
  // compinit calls the file as the function _quire; `source` only defines the functions.
  return out +
         "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _quire \"$@\"; else compdef _quire quire; "
         "fi\n";
}

}  // namespace quire::cli
