// quire version.
#include <iostream>

#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "engine/build_info.h"

namespace quire::cli {

void add_version(CLI::App& app, int& exit_code) {
  CLI::App* command =
      add_command(app, "version", "Print the version, commit, and compiled and selected instruction sets");
  command->callback([&exit_code] {
    const BuildInfo info = build_info();
    std::cout << "quire " << info.version << "\ncommit " << info.commit << "\ncompiler " << info.compiler
              << "\ninstruction sets compiled: " << join(info.isas, ", ")
              << "\ninstruction set selected: " << info.chosen_isa << "\nCUDA: " << (info.cuda ? "yes" : "no")
              << "\n";
    exit_code = 0;
  });
}

}  // namespace quire::cli
