// The program `quire`.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "engine/build_info.h"

namespace {

// Throws quire::Error, and std::bad_alloc also while the flags are set up.
int run(int argc, char** argv) {
  using namespace quire::cli;
  int exit_code = 0;
  CLI::App app{"LLM inference and serving engine: paged attention, continuous batching, one native program.",
               "quire"};
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Print the help of all commands");
  app.set_version_flag(
      "--version", [] { return "quire " + quire::build_info().version; }, "Print the version");
  add_generate(app, exit_code);
  add_chat(app, exit_code);
  add_serve(app, exit_code);
  add_bench(app, exit_code);
  add_tokenize(app, exit_code);
  add_detokenize(app, exit_code);
  add_render(app, exit_code);
  add_inspect(app, exit_code);
  add_bundle(app, exit_code);
  add_perplexity(app, exit_code);
  add_quantize(app, exit_code);
  add_simulate(app, exit_code);
  add_top(app, exit_code);
  add_pull(app, exit_code);
  add_run(app, exit_code);
  add_list(app, exit_code);
  add_rm(app, exit_code);
  add_completion(app, exit_code);
  add_man(app, exit_code);
  add_version(app, exit_code);
  try {
    auto arguments = with_config_file({argv + 1, argv + argc});
    std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 expects
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    // CLI11 reports --help as an error with code 0; every other code is wrong usage.
    return app.exit(error) == 0 ? 0 : 2;
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
