#include "cli/reference/command_reference.h"

#include <algorithm>
#include <sstream>

namespace quire::cli {
namespace {

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

// "TEXT" of "TEXT:{a,b}", "SIZE" of "INT:SIZE", "INT" of "INT:INT in [1 - 4]".
std::string value_name(const std::string& type) {
  if (type.find('{') != std::string::npos) return type.substr(0, type.find(':'));
  std::string name = type.substr(type.rfind(':') + 1);
  name = name.substr(0, name.find(' '));
  if (name == "UINT") return "INT";
  if (name == "POSITIVE" || name == "NONNEGATIVE") return "FLOAT";
  return name;
}

std::vector<std::string> choices_of(const std::string& type) {
  const size_t begin = type.find('{');
  const size_t end = type.rfind('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return split(type.substr(begin + 1, end - begin - 1), ',');
}

// A footer with the title "Formats:" lists the values of --format, one per line. A line "a-TYPE  ... TYPE is
// one of x y" stands for a-x and a-y.
std::vector<std::string> choices_in_footer(const std::string& footer, const std::string& flag) {
  std::string title = flag.substr(std::min<size_t>(2, flag.size())) + "s:";
  title[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(title[0])));
  std::istringstream in(footer);
  std::string line;
  while (std::getline(in, line) && line != title) {
  }
  std::vector<std::string> choices;
  while (std::getline(in, line) && line.starts_with("  ")) {
    const std::string name = split(line, ' ').at(0);
    static const std::string kTypes = "TYPE is one of ";
    const size_t types = line.find(kTypes);
    if (!name.ends_with("-TYPE")) {
      choices.push_back(name);
    } else if (types != std::string::npos) {
      for (const std::string& type : split(line.substr(types + kTypes.size()), ' '))
        choices.push_back(name.substr(0, name.size() - 4) + type);
    }
  }
  return choices;
}

FlagReference read_flag(const CLI::Option& option, const std::string& footer) {
  FlagReference flag;
  for (const std::string& name : option.get_snames()) flag.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) flag.names.push_back("--" + name);
  flag.description = option.get_description();
  flag.required = option.get_required();
  if (option.get_positional()) flag.names = {option.get_name(true)};
  const bool many = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  flag.repeatable = many && option.get_items_expected_max() > 0;
  if (option.get_items_expected_max() == 0) return flag;
  const std::string type = option.get_type_name();
  flag.value = option.get_positional() ? flag.names[0] : value_name(type);
  flag.choices = choices_of(type);
  if (flag.choices.empty()) flag.choices = choices_in_footer(footer, flag.names.back());
  flag.default_value = option.get_default_str();
  if (flag.default_value == "[]") flag.default_value.clear();
  flag.value_optional = option.get_items_expected_min() == 0;
  if (!flag.choices.empty()) {
    flag.kind = ValueKind::kChoice;
  } else if (flag.value == "FILE") {
    flag.kind = ValueKind::kFile;
  } else if (flag.value == "DIR") {
    flag.kind = ValueKind::kDirectory;
  } else if (option.get_positional() && (flag.value == "MODEL" || flag.value == "NAME")) {
    flag.kind = ValueKind::kModel;
  } else {
    flag.kind = ValueKind::kAny;
  }
  return flag;
}

void read_into(CommandReference& command, const CLI::App& app) {
  command.summary = app.get_description();
  command.footer = app.get_footer();
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    FlagReference flag = read_flag(*option, command.footer);
    if (option->get_positional()) {
      command.positionals.push_back(std::move(flag));
      continue;
    }
    auto group = std::find_if(command.groups.begin(), command.groups.end(),
                              [&](const FlagGroup& g) { return g.title == option->get_group(); });
    if (group == command.groups.end())
      group = command.groups.insert(group, {.title = option->get_group(), .flags = {}});
    group->flags.push_back(std::move(flag));
  }
  for (const CLI::App* child : app.get_subcommands([](const CLI::App*) { return true; })) {
    CommandReference& added = command.subcommands.emplace_back();
    added.name = command.name.empty() ? child->get_name() : command.name + " " + child->get_name();
    read_into(added, *child);
  }
}

}  // namespace

CommandReference read_commands(const CLI::App& app) {
  CommandReference program;
  read_into(program, app);
  return program;
}

std::vector<CommandReference> runnable_commands(const CommandReference& program) {
  std::vector<CommandReference> commands;
  for (const CommandReference& command : program.subcommands) {
    if (command.subcommands.empty()) {
      commands.push_back(command);
    } else {
      commands.insert(commands.end(), command.subcommands.begin(), command.subcommands.end());
    }
  }
  return commands;
}

std::vector<FlagGroup> shared_groups(const std::vector<CommandReference>& commands) {
  std::vector<FlagGroup> shared;
  for (const CommandReference& command : commands) {
    for (const FlagGroup& group : command.groups) {
      const auto uses = std::count_if(commands.begin(), commands.end(), [&](const CommandReference& other) {
        return std::find(other.groups.begin(), other.groups.end(), group) != other.groups.end();
      });
      if (uses >= 3 && std::find(shared.begin(), shared.end(), group) == shared.end())
        shared.push_back(group);
    }
  }
  return shared;
}

}  // namespace quire::cli
