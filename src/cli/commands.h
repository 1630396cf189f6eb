// The commands of the program. Each has one file; add_<command> declares its flags and returns nothing: the
// command runs when the parse calls it and leaves its exit code in `exit_code` (0 done, 1 the work failed, 2
// the call was wrong).
#pragma once

#include <CLI/CLI.hpp>

namespace quire::cli {

void add_generate(CLI::App& app, int& exit_code);
void add_chat(CLI::App& app, int& exit_code);
void add_serve(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_tokenize(CLI::App& app, int& exit_code);
void add_detokenize(CLI::App& app, int& exit_code);
void add_render(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_bundle(CLI::App& app, int& exit_code);
void add_perplexity(CLI::App& app, int& exit_code);
void add_quantize(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);
void add_version(CLI::App& app, int& exit_code);

}  // namespace quire::cli
