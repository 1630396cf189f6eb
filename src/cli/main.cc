// The program `quire`.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "cli/command_line.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/help.h"
#include "engine/build_info.h"

namespace {

// The arguments for the parser: those of the command line and of --config, with the names that quire has.
std::vector<std::string> read_command_line(const CLI::App& app, std::vector<std::string> arguments) {
  using namespace quire::cli;
  CommandLine typed = translate_command_line(app, std::move(arguments));
  CommandLine all = translate_command_line(app, with_config_file(std::move(typed.arguments)));
  for (const auto* notes : {&typed.notes, &all.notes}) {
    for (const std::string& note : *notes) std::fprintf(stderr, "%s\n", note.c_str());
  }
  return std::move(all.arguments);
}

// Prints what the parser found to be wrong, after the name of the command.
void report_usage_error(const CLI::App& app, const CLI::ParseError& error) {
  std::string name = "quire";
  for (const CLI::App* command = &app; !command->get_subcommands().empty();) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  std::string message = error.what();
  if (const size_t colon = message.find(" not expected: "); colon != std::string::npos)
    message = "unexpected argument: " + message.substr(colon + 15);
  std::fprintf(stderr, "%s: %s (%s --help explains the command)\n", name.c_str(), message.c_str(),
               name.c_str());
}

// Throws quire::Error, and std::bad_alloc also while the flags are set up.
int run(int argc, char** argv) {
  using namespace quire::cli;
  int exit_code = 0;
  CLI::App app{"LLM inference and serving engine: paged attention, continuous batching, one native program.",
               "quire"};
  app.require_subcommand(1);
  use_help_texts(app);
  app.set_help_flag("-h,--help", "Print a short help");
  app.set_help_all_flag("--help-all", "Print the help of all commands, with all flags");
  app.set_version_flag(
      "--version", [] { return "quire " + quire::build_info().version; }, "Print the version");
  add_commands(app, exit_code);
  try {
    auto arguments = read_command_line(app, {argv + 1, argv + argc});
    std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 expects
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    // CLI11 reports --help as an error with code 0; every other code is wrong usage.
    if (error.get_exit_code() == 0) return app.exit(error);
    report_usage_error(app, error);
    return 2;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  return exit_code;
}

// The terminate handler. Some destructors of libraries allocate (nlohmann::json's does), and an exception in
// a destructor ends the process. Running out of memory there is an error like any other: status 1, no core
// dump.
[[noreturn]] void end_process() {
  try {
    if (std::current_exception() != nullptr) throw;
  } catch (const std::bad_alloc&) {
    constexpr std::string_view kMessage = "quire: out of memory\n";
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, kMessage.data(), kMessage.size());
    _exit(1);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quire: unexpected failure: %s\n", error.what());
  }
  std::abort();
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(end_process);
  try {
    return run(argc, argv);
  } catch (const quire::Error& error) {
    std::fprintf(stderr, "quire: %s\n", error.what());
  } catch (const std::bad_alloc&) {
    std::fputs("quire: out of memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quire: unexpected failure: %s\n", error.what());
  }
  return 1;
}
