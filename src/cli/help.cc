#include "cli/help.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/split.h"
#include "base/strings.h"
#include "cli/foreign_flags.h"
#include "cli/terminal.h"

namespace quire::cli {
namespace {

constexpr int kMinColumns = 40;
constexpr int kMaxColumns = 120;
constexpr int kLeftColumns = 26;

using Row = std::pair<std::string, std::string>;  // a name and its description

std::string aligned(const std::vector<Row>& rows, int columns) {
  int left = 0;
  for (const auto& [name, description] : rows) left = std::max(left, display_width(name));
  const int indent = std::min(left, kLeftColumns) + 4;
  std::string out;
  for (const auto& [name, description] : rows) {
    out += "  " + name;
    const int used = 2 + display_width(name);
    out += used + 2 > indent ? "\n" + std::string(static_cast<size_t>(indent), ' ')
                             : std::string(static_cast<size_t>(indent - used), ' ');
    out += wrapped(description, columns, indent) + "\n";
  }
  return out;
}

std::string section(const std::string& title, const std::vector<Row>& rows, int columns) {
  return rows.empty() ? std::string() : cat("\n", title, ":\n", aligned(rows, columns));
}

Row row_of(const FlagReference& flag) {
  std::string name = join(flag.names, ", ");
  const bool positional = !flag.names.front().starts_with('-');
  if (!positional && !flag.value.empty())
    name += flag.value_optional ? cat(" [", flag.value, "]") : " " + flag.value;
  std::vector<std::string> remarks;
  if (flag.required) remarks.emplace_back("required");
  if (!flag.choices.empty() && flag.choices.size() <= 12)
    remarks.push_back("one of " + join(flag.choices, ", "));
  if (!flag.default_value.empty()) remarks.push_back("default " + flag.default_value);
  return {name, remarks.empty() ? flag.description : cat(flag.description, " [", join(remarks, "; "), "]")};
}

bool has_name(const FlagReference& flag, std::string_view name) {
  return std::ranges::find(flag.names, name) != flag.names.end();
}

const CommandHelp* find_help(const std::string& command) {
  const auto table = help_of_commands();
  const auto found = std::ranges::find(table, std::string_view(command), &CommandHelp::command);
  return found == table.end() ? nullptr : &*found;
}

std::string usage(const CommandReference& command, const std::string& name) {
  std::string out = cat("Usage: quire", name.empty() ? "" : " ", name);
  if (!command.subcommands.empty()) return out + " COMMAND [MODEL] [FLAGS]\n";
  for (const FlagReference& argument : command.positionals) {
    const std::string text = argument.value + (argument.repeatable ? "..." : "");
    out += argument.required ? " " + text : cat(" [", text, "]");
  }
  return out + " [FLAGS]\n";
}

std::string examples(const CommandHelp* help) {
  if (help == nullptr || help->examples[0].empty()) return {};
  std::string out = "\nExamples:\n";
  for (const std::string_view example : help->examples) {
    if (!example.empty()) out += cat("  ", example, "\n");
  }
  return out;
}

Row command_row(const CommandReference& command) {
  return {command.name.substr(command.name.rfind(' ') + 1), command.summary};
}

// The commands of the program under their headings, or those of bench.
std::string command_list(const CommandReference& command, const std::string& name, int columns) {
  std::vector<Row> others;
  if (!name.empty()) {
    for (const CommandReference& child : command.subcommands) others.push_back(command_row(child));
    return section("Commands", others, columns);
  }
  std::string out;
  const auto groups = help_groups();
  for (const HelpGroup& group : groups) {
    std::vector<Row> rows;
    for (const std::string& word : split_text(group.commands, " ")) {
      const auto found = std::ranges::find(command.subcommands, word, &CommandReference::name);
      if (found != command.subcommands.end()) rows.push_back(command_row(*found));
    }
    if (&group == &groups.back()) {
      for (const CommandReference& child : command.subcommands) {
        const bool listed = std::ranges::any_of(
            groups, [&](const HelpGroup& other) { return has_word(other.commands, child.name); });
        if (!listed) rows.push_back(command_row(child));
      }
    }
    out += section(std::string(group.title), rows, columns);
  }
  return out;
}

std::string all_flags(const CommandReference& command, int columns) {
  std::string out;
  for (const FlagGroup& group : command.groups) {
    std::vector<Row> rows;
    for (const FlagReference& flag : group.flags) rows.push_back(row_of(flag));
    out += section(group.title == "Options" ? "Flags" : group.title, rows, columns);
  }
  return out + (command.footer.empty() ? "" : "\n" + command.footer);
}

// The most important flags, and how many others there are.
std::string main_flags(const CommandReference& command, const std::string& name, const CommandHelp* help,
                       int columns) {
  std::vector<const FlagReference*> flags;
  for (const FlagGroup& group : command.groups) {
    for (const FlagReference& flag : group.flags) flags.push_back(&flag);
  }
  std::vector<Row> rows;
  if (help == nullptr || help->flags.empty()) {
    for (const FlagReference* flag : flags) {
      if (!has_word("--help --help-all --config --log-level", flag->names.back()))
        rows.push_back(row_of(*flag));
    }
  } else {
    for (const std::string& word : split_text(help->flags, " ")) {
      const auto found =
          std::ranges::find_if(flags, [&](const FlagReference* f) { return has_name(*f, word); });
      if (found != flags.end()) rows.push_back(row_of(**found));
    }
  }
  std::string out = section("Flags", rows, columns) + examples(help);
  if (rows.size() < flags.size())
    out += cat("\n", flags.size() - rows.size(), " more flags: quire ", name, " --help-all\n");
  return out;
}

std::string help_of(const CommandReference& command, const std::string& name, bool all, int columns) {
  const CommandHelp* help = find_help(name);
  std::string out = wrapped(command.summary, columns, 0) + "\n\n" + usage(command, name);
  if (!command.subcommands.empty()) {
    out += command_list(command, name, columns);
    if (!all) {
      out += examples(help);
      return out + "\n" +
             wrapped(
                 name.empty()
                     ? "quire COMMAND --help explains a command, quire --help-all lists all flags. Without "
                       "MODEL, commands use the embedded model, quire-tiny."
                     : cat("quire ", name, " COMMAND --help explains a command."),
                 columns, 0) +
             "\n";
    }
    out += all_flags(command, columns);
    for (const CommandReference& child : command.subcommands)
      out += "\n\n" +
             help_of(child,
                     name.empty() ? child.name : cat(name, " ", child.name.substr(child.name.rfind(' ') + 1)),
                     all, columns);
    return out;
  }
  std::vector<Row> arguments;
  for (const FlagReference& argument : command.positionals) arguments.push_back(row_of(argument));
  out += section("Arguments", arguments, columns);
  return out +
         (all ? all_flags(command, columns) + examples(help) : main_flags(command, name, help, columns));
}

int help_columns() {
  if (const char* columns = std::getenv("COLUMNS"); columns != nullptr && std::atoi(columns) > 0)
    return std::max(kMinColumns, std::atoi(columns));
  return std::clamp(terminal_size(STDOUT_FILENO).columns, kMinColumns, kMaxColumns);
}

// "bench latency".
std::string name_within_program(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  if (parent == nullptr) return {};
  const std::string outer = name_within_program(*parent);
  return outer.empty() ? app.get_name() : outer + " " + app.get_name();
}

}  // namespace

std::string wrapped(std::string_view text, int width, int indent) {
  std::string out;
  int used = indent;
  for (const std::string& word : split_text(text, " ")) {
    const int columns = display_width(word);
    if (used > indent && used + 1 + columns > width) {
      out += "\n" + std::string(static_cast<size_t>(indent), ' ');
      used = indent;
    } else if (used > indent) {
      out += ' ';
      ++used;
    }
    out += word;
    used += columns;
  }
  return out;
}

std::string help_text(const CLI::App& app, bool all, int columns) {
  return help_of(read_commands(app), name_within_program(app), all, columns);
}

void use_help_texts(CLI::App& app) {
  app.formatter_fn([](const CLI::App* command, const std::string&, CLI::AppFormatMode mode) {
    return help_text(*command, mode == CLI::AppFormatMode::All, help_columns());
  });
}

}  // namespace quire::cli
