// quire completion and quire man: texts that are written from the parser.
#include <iostream>
#include <map>

#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/reference/command_reference.h"
#include "engine/build_info.h"

namespace quire::cli {

void add_completion(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "completion", "Print the completion script of a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->callback([shell, &app, &exit_code] {
    const CommandReference program = read_commands(app);
    std::cout << (*shell == "bash"  ? bash_completion(program)
                  : *shell == "zsh" ? zsh_completion(program)
                                    : fish_completion(program));
    exit_code = 0;
  });
}

void add_man(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "man", "Print the manual page, in the format of man");
  command->callback([&app, &exit_code] {
    std::cout << manual_page(read_commands(app), build_info().version);
    exit_code = 0;
  });
}

}  // namespace quire::cli
