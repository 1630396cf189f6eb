#include "cli/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "cli/commands.h"
#include "cli/foreign_flags.h"
#include "cli/terminal.h"

namespace quire::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

class HelpTest : public testing::Test {
 protected:
  HelpTest() { add_commands(app_, exit_code_); }

  std::string help(const std::string& command, bool all, int columns = 80) {
    CLI::App* app = &app_;
    std::istringstream words(command);
    for (std::string word; words >> word;) app = app->get_subcommand(word);
    return help_text(*app, all, columns);
  }
  std::vector<std::string> commands() const {
    std::vector<std::string> names;
    for (const CommandReference& command : runnable_commands(read_commands(app_)))
      names.push_back(command.name);
    return names;
  }

  CLI::App app_{"An engine.", "quire"};
  int exit_code_ = 0;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

TEST_F(HelpTest, HasTenFlagsAndTwoExamples) {
  for (const std::string& command : commands()) {
    const std::string text = help(command, false);
    const std::string flags = text.substr(std::min(text.find("\nFlags:\n"), text.size()));
    const auto lines = lines_of(flags);
    const auto count =
        std::ranges::count_if(lines, [](const std::string& l) { return l.starts_with("  -"); });
    EXPECT_LE(count, 10) << command;
    if (command != "version") {
      EXPECT_THAT(text, HasSubstr("\nExamples:\n")) << command;
    }
  }
  EXPECT_THAT(help("serve", false), HasSubstr("--port INT"));
  EXPECT_THAT(help("serve", false), Not(HasSubstr("--preemption-mode")));
  EXPECT_THAT(help("serve", false), HasSubstr(" more flags: quire serve --help-all\n"));
  EXPECT_THAT(help("serve", true), HasSubstr("--preemption-mode TEXT"));
}

TEST_F(HelpTest, TableNamesFlagsThatExist) {
  for (const CommandHelp& row : help_of_commands()) {
    std::istringstream flags{std::string(row.flags)};
    int count = 0;
    const std::string all = help(std::string(row.command), true, 9999);
    for (std::string flag; flags >> flag; ++count) EXPECT_THAT(all, HasSubstr(flag)) << row.command;
    EXPECT_LE(count, 10) << row.command;
  }
  std::string grouped;
  for (const HelpGroup& group : help_groups()) grouped += std::string(group.commands) + " ";
  std::istringstream words(grouped);
  for (std::string word; words >> word;) EXPECT_NE(app_.get_subcommand(word), nullptr) << word;
}

TEST_F(HelpTest, FitsTheTerminalWithoutBreakingWords) {
  const auto wide = help("serve", true, 9999);
  for (const int columns : {60, 80, 120}) {
    for (const std::string& command : commands()) {
      for (const std::string& line : lines_of(help(command, false, columns))) {
        // Examples are commands to copy.
        if (line.starts_with("  quire ") || line.starts_with("  source") || line.starts_with("  git"))
          continue;
        const bool one_word = line.find(' ', line.find_first_not_of(' ')) == std::string::npos;
        EXPECT_TRUE(display_width(line) <= columns || one_word) << command << ": " << line;
      }
    }
    std::istringstream words(help("serve", true, columns));
    for (std::string word; words >> word;) EXPECT_THAT(wide, HasSubstr(word));
  }
}

TEST_F(HelpTest, ListsEveryCommandOnce) {
  const auto lines = lines_of(help("", false));
  for (const CommandReference& command : read_commands(app_).subcommands) {
    const auto count = std::ranges::count_if(
        lines, [&](const std::string& line) { return line.starts_with("  " + command.name + " "); });
    EXPECT_EQ(count, 1) << command.name;
  }
  EXPECT_THAT(help("", true), HasSubstr("--preemption-mode"));
}

TEST(WrappedText, BreaksAtSpaces) {
  EXPECT_EQ(wrapped("one two three", 7, 0), "one two\nthree");
  EXPECT_EQ(wrapped("one two", 7, 2), "one\n  two");
  EXPECT_EQ(wrapped("incomprehensible x", 5, 0), "incomprehensible\nx");
  EXPECT_EQ(wrapped("", 5, 0), "");
}

}  // namespace
}  // namespace quire::cli
