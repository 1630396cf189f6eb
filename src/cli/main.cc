// The program `quire`.
#include <algorithm>
#include <cstdio>
#include <exception>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/flags.h"

int main(int argc, char** argv) {
  using namespace quire::cli;
  int exit_code = 0;
  CLI::App app{"quire serves large language models: paged attention, continuous batching, one program.",
               "quire"};
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of all commands");
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
  add_version(app, exit_code);
  try {
    auto arguments = with_config_file({argv + 1, argv + argc});
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
    app.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    // Help and version are errors of code 0; all else was a wrong call.
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const quire::Error& error) {
    std::fprintf(stderr, "quire: %s\n", error.what());
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "quire: unexpected failure: %s\n", error.what());
    return 1;
  }
  return exit_code;
}
