// Completion for bash.
#include <algorithm>
#include <map>

#include "base/strings.h"
#include "cli/reference/command_reference.h"

namespace quire::cli {
namespace {

constexpr const char* kBashHead = R"(# bash completion for quire; written by: quire completion bash

# Completes the value $2 of the kind $1. $3 is what precedes the value in the word.
_quire_values() {
  local kind=$1 value=$2 prefix=$3 i
  case $kind in
    none) return ;;
    files | models)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$value") ;;
    directories)
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$value") ;;
    *) mapfile -t COMPREPLY < <(compgen -W "$kind" -- "$value") ;;
  esac
  if [[ $kind == models ]]; then
    local names
    names=$("${COMP_WORDS[0]}" list 2>/dev/null | awk 'NR > 1 { print $1 }')
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$names" -- "$value")
  fi
  # readline replaces only what follows the last = or : of the word.
  if [[ $prefix && $COMP_WORDBREAKS != *=* ]]; then
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=$prefix${COMPREPLY[i]}; done
  fi
  if [[ $value == *:* && $COMP_WORDBREAKS == *:* ]]; then
    for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"${value%:*}:"}; done
  fi
}

_quire() {
  local words=() word command cur prev flags='' kind='' positional=none
  COMPREPLY=()
  # bash splits words at = and :.
  for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
    if ((${#words[@]} > 1)) && [[ $word == [=:] || ${words[${#words[@]}-1]} == *[=:] ]]; then
      words[${#words[@]}-1]+=$word
    else
      words+=("$word")
    fi
  done
  local last=$((${#words[@]} - 1))
  cur=${words[last]}
  prev=${words[last-1]}
  command=${words[1]}
)";

// The value kind of _quire_values.
std::string bash_kind(const FlagReference& flag) {
  switch (flag.kind) {
    case ValueKind::kFile:
      return "files";
    case ValueKind::kDirectory:
      return "directories";
    case ValueKind::kModel:
      return "models";
    case ValueKind::kChoice:
      return join(flag.choices, " ");
    case ValueKind::kAny:
    case ValueKind::kNone:
      break;
  }
  return "none";
}

std::string names_of(const std::vector<CommandReference>& commands) {
  std::vector<std::string> names;
  names.reserve(commands.size());
  for (const CommandReference& command : commands)
    names.push_back(command.name.substr(command.name.rfind(' ') + 1));
  return join(names, " ");
}

std::string flag_names(const CommandReference& command) {
  std::vector<std::string> names;
  for (const FlagGroup& group : command.groups) {
    for (const FlagReference& flag : group.flags)
      names.insert(names.end(), flag.names.begin(), flag.names.end());
  }
  return join(names, " ");
}

// Patterns "COMMAND FLAG" of the flags with values, by the kind of the value. A flag that has the same kind
// in all commands is written "* FLAG".
std::map<std::string, std::vector<std::string>> value_patterns(
    const std::vector<CommandReference>& commands) {
  std::map<std::string, std::map<std::string, std::vector<std::string>>> kinds;  // flag, kind, commands
  for (const CommandReference& command : commands) {
    for (const FlagGroup& group : command.groups) {
      for (const FlagReference& flag : group.flags) {
        // The program would ignore "" as a kind: flags without a value have it.
        const std::string kind = flag.kind == ValueKind::kNone ? "" : bash_kind(flag);
        for (const std::string& name : flag.names) kinds[name][kind].push_back(command.name);
      }
    }
  }
  std::map<std::string, std::vector<std::string>> patterns;
  for (const auto& [name, by_kind] : kinds) {
    for (const auto& [kind, owners] : by_kind) {
      if (kind.empty()) continue;
      if (by_kind.size() == 1) {
        patterns[kind].push_back("*' " + name + "'");
      } else {
        for (const std::string& owner : owners) patterns[kind].push_back(cat("'", owner, " ", name, "'"));
      }
    }
  }
  return patterns;
}

}  // namespace

std::string bash_completion(const CommandReference& program) {
  const std::vector<CommandReference> commands = runnable_commands(program);
  std::string out = kBashHead;
  out += "  if ((last == 1)); then\n";
  out += cat("    _quire_values '", names_of(program.subcommands), " ", flag_names(program),
             "' \"$cur\"\n    return\n  fi\n");
  for (const CommandReference& command : program.subcommands) {
    if (command.subcommands.empty()) continue;
    out += cat("  if [[ $command == ", command.name, " ]]; then\n    if ((last == 2)); then\n");
    out += cat("      _quire_values '", names_of(command.subcommands), " ", flag_names(command),
               "' \"$cur\"\n      return\n    fi\n");
    out += "    command+=\" ${words[2]}\"\n  fi\n";
  }
  out += "  case $command in\n";
  for (const CommandReference& command : commands) {
    out += cat("    '", command.name, "')\n");
    if (!command.positionals.empty())
      out += cat("      positional='", bash_kind(command.positionals[0]), "'\n");
    out += cat("      flags='", flag_names(command), "' ;;\n");
  }
  out += "    *) return ;;\n  esac\n";
  out += "  local flag=$prev value=$cur prefix=''\n";
  out += "  if [[ $cur == --*=* ]]; then\n";
  out += "    flag=${cur%%=*} value=${cur#*=} prefix=${cur%%=*}=\n  fi\n";
  out += "  case \"$command $flag\" in\n";
  for (const auto& [kind, names] : value_patterns(commands))
    out += cat("    ", join(names, " | "), ")\n      kind='", kind, "' ;;\n");
  out += "  esac\n";
  out += "  if [[ $kind && ( $prefix || $cur != -* ) ]]; then\n";
  out += "    _quire_values \"$kind\" \"$value\" \"$prefix\"\n";
  out += "  elif [[ $cur == -* ]]; then\n    _quire_values \"$flags\" \"$cur\"\n";
  out += "  else\n    _quire_values \"$positional\" \"$cur\"\n  fi\n}\n";
  return out + "complete -F _quire quire\n";
}

}  // namespace quire::cli
