#include "cli/foreign_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/split.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/reference/command_reference.h"

namespace quire::cli {
namespace {

using testing::HasSubstr;

constexpr Origin kOrigins[] = {Origin::kVllm, Origin::kLlamaCpp, Origin::kOllama};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(std::filesystem::path(QUIRE_SOURCE_DIR) / path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string page_of(Origin origin) {
  const char* name = origin == Origin::kVllm ? "vllm" : origin == Origin::kLlamaCpp ? "llama-cpp" : "ollama";
  return read_file(std::string("docs/moving-from-") + name + ".md");
}

// The flags in code spans.
std::vector<std::string> flags_in(const std::string& text) {
  static const std::regex kFlag("`(--?[A-Za-z][A-Za-z0-9-]*)");
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), kFlag), end; it != end; ++it)
    found.push_back((*it)[1]);
  return found;
}

class ForeignFlags : public testing::Test {
 protected:
  ForeignFlags() {
    add_commands(app_, exit_code_);
    for (const CommandReference& command : runnable_commands(read_commands(app_))) {
      for (const FlagGroup& group : command.groups) {
        for (const FlagReference& flag : group.flags)
          flags_[command.name].insert(flag.names.begin(), flag.names.end());
      }
      all_.insert(flags_[command.name].begin(), flags_[command.name].end());
    }
  }

  CLI::App app_{"", "quire"};
  int exit_code_ = 0;
  std::map<std::string, std::set<std::string>> flags_;  // flags by command
  std::set<std::string> all_;
};

TEST_F(ForeignFlags, HaveCompleteRows) {
  for (const Origin origin : kOrigins) {
    for (const ForeignFlag& row : foreign_flags(origin)) {
      const bool is_same = row.action == ForeignAction::kSame;
      EXPECT_EQ(is_same, !row.here.empty()) << row.names;
      const bool has_note =
          row.action == ForeignAction::kIgnored || row.action == ForeignAction::kUnavailable;
      EXPECT_EQ(has_note, !row.note.empty()) << row.names;
      if (is_same) {
        EXPECT_TRUE(all_.contains(std::string(row.here.substr(0, row.here.find('='))))) << row.here;
      }
      for (const std::string& command : split_text(row.commands, " "))
        EXPECT_TRUE(flags_.contains(command) || command == "bench") << command;
      if (row.value == ForeignValue::kOptional && row.action == ForeignAction::kIgnored) {
        EXPECT_FALSE(row.harmless.empty()) << row.names;
      }
    }
  }
}

TEST_F(ForeignFlags, NameFlagsAndCommandsThatExistInNotes) {
  static const std::regex kFlag("(?:^|[ (])(--[a-z][a-z-]*)");
  static const std::regex kCommand("quire ([a-z-]+)");
  for (const Origin origin : kOrigins) {
    for (const ForeignFlag& row : foreign_flags(origin)) {
      const std::string note(row.note);
      for (std::sregex_iterator it(note.begin(), note.end(), kFlag), end; it != end; ++it)
        EXPECT_TRUE(all_.contains((*it)[1])) << note;
      for (std::sregex_iterator it(note.begin(), note.end(), kCommand), end; it != end; ++it)
        EXPECT_NE(app_.get_subcommand((*it)[1]), nullptr) << note;
    }
  }
  for (const ForeignCommand& row : foreign_commands()) {
    EXPECT_NE(row.here.empty(), row.note.empty()) << row.name;
    EXPECT_THROW((void)app_.get_subcommand(std::string(row.name)), CLI::OptionNotFound)
        << row.name << " exists: remove its row";
    if (!row.here.empty()) {
      EXPECT_NE(app_.get_subcommand(std::string(row.here)), nullptr);
    }
  }
  for (const ForeignValueName& row : foreign_values())
    EXPECT_TRUE(all_.contains(std::string(row.flag))) << row.flag;
}

TEST_F(ForeignFlags, AreRemovedOnceTheServerHasThem) {
  for (const Origin origin : kOrigins) {
    for (const ForeignFlag& row : foreign_flags(origin)) {
      if (!row.commands.empty() || row.action == ForeignAction::kSame) continue;
      for (const std::string& name : split_text(row.names, " "))
        EXPECT_FALSE(flags_["serve"].contains(name))
            << name << " is a flag of quire serve: remove it from the table";
    }
  }
}

TEST_F(ForeignFlags, AreNamedOncePerOrigin) {
  for (const Origin origin : kOrigins) {
    std::set<std::string> seen;
    for (const ForeignFlag& row : foreign_flags(origin)) {
      for (const std::string& name : split_text(row.names, " ")) {
        const auto commands =
            row.commands.empty() ? std::vector<std::string>{""} : split_text(row.commands, " ");
        for (const std::string& command : commands)
          EXPECT_TRUE(seen.insert(name + " " + command).second) << name;
      }
    }
  }
}

// The second column of a page agrees with the table: "no effect", "none", the first argument, or flags of
// quire.
TEST_F(ForeignFlags, AreDocumentedAsTheyAct) {
  static const std::regex kRow(R"(\| ((?:`-[^|`]*`(?:, )?)+) \| ([^|]*) \| ([^|]*)\|)");
  int num_rows = 0;
  for (const Origin origin : kOrigins) {
    std::istringstream lines(page_of(origin));
    for (std::string line; std::getline(lines, line);) {
      std::smatch cells;
      if (!std::regex_match(line, cells, kRow)) continue;
      ++num_rows;
      const std::string here = cells[2];
      for (const std::string& name : flags_in(cells[1])) {
        const auto rows = foreign_flags(origin);
        const auto acts = [&](ForeignAction action) {
          return std::ranges::any_of(rows, [&](const ForeignFlag& row) {
            return has_word(row.names, name) && row.action == action;
          });
        };
        if (here == "no effect") {
          EXPECT_TRUE(acts(ForeignAction::kIgnored)) << name;
        } else if (here == "none") {
          EXPECT_TRUE(find_foreign_flag(name, "serve") != nullptr || acts(ForeignAction::kUnavailable))
              << name;
          EXPECT_FALSE(acts(ForeignAction::kIgnored)) << name;
        } else if (here == "the first argument") {
          EXPECT_TRUE(acts(ForeignAction::kModel) || acts(ForeignAction::kModelFile)) << name;
        } else {
          const std::vector<std::string> own = flags_in(here);
          const bool same = std::ranges::any_of(rows, [&](const ForeignFlag& row) {
            return has_word(row.names, name) && row.action == ForeignAction::kSame &&
                   std::ranges::any_of(own,
                                       [&](const std::string& flag) { return row.here.starts_with(flag); });
          });
          EXPECT_TRUE(same || all_.contains(name)) << name << ": " << here;
        }
      }
    }
  }
  EXPECT_GT(num_rows, 100);
}

TEST_F(ForeignFlags, AreAllDocumented) {
  for (const Origin origin : kOrigins) {
    const auto found = flags_in(page_of(origin));
    const std::set<std::string> documented(found.begin(), found.end());
    for (const ForeignFlag& row : foreign_flags(origin)) {
      for (const std::string& name : split_text(row.names, " "))
        EXPECT_TRUE(documented.contains(name)) << name;
    }
    // Flags without effect are in one list.
    const std::string page = page_of(origin);
    const size_t begin = page.find("\nWithout effect: ");
    if (begin == std::string::npos) continue;
    for (const std::string& name : flags_in(page.substr(begin, page.find("\n\n", begin) - begin))) {
      EXPECT_TRUE(std::ranges::any_of(foreign_flags(origin), [&](const ForeignFlag& row) {
        return has_word(row.names, name) && row.action == ForeignAction::kIgnored;
      })) << name;
    }
  }
}

TEST_F(ForeignFlags, CoverTheArgumentsOfThePythonPackage) {
  const std::string source = read_file("python/quire/engine/vllm_args.py");
  static const std::regex kName("[{ ]\"([a-z_]+)\": ");
  int count = 0;
  for (std::sregex_iterator it(source.begin(), source.end(), kName), end; it != end; ++it, ++count) {
    std::string flag = "--" + (*it)[1].str();
    std::replace(flag.begin(), flag.end(), '_', '-');
    EXPECT_TRUE(all_.contains(flag) || find_foreign_flag(flag, "serve") != nullptr) << flag;
  }
  EXPECT_GT(count, 150);
}

}  // namespace
}  // namespace quire::cli
