// The commands of the program, one file each. add_<command> declares the command and its flags. The command
// runs as a callback of the parse and stores its exit code in `exit_code`: 0 = success, 1 = failure, 2 =
// wrong usage.
#pragma once

#include <CLI/CLI.hpp>

namespace quire::cli {

void add_commands(CLI::App& app, int& exit_code);  // all of them

void add_generate(CLI::App& app, int& exit_code);
void add_chat(CLI::App& app, int& exit_code);
void add_serve(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_tokenize(CLI::App& app, int& exit_code);
void add_detokenize(CLI::App& app, int& exit_code);
void add_render(CLI::App& app, int& exit_code);
void add_parse(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_bundle(CLI::App& app, int& exit_code);
void add_check_schema(CLI::App& app, int& exit_code);
void add_perplexity(CLI::App& app, int& exit_code);
void add_quantize(CLI::App& app, int& exit_code);
void add_merge(CLI::App& app, int& exit_code);
void add_simulate(CLI::App& app, int& exit_code);
void add_top(CLI::App& app, int& exit_code);
void add_pull(CLI::App& app, int& exit_code);
void add_list(CLI::App& app, int& exit_code);
void add_rm(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_completion(CLI::App& app, int& exit_code);
void add_man(CLI::App& app, int& exit_code);
void add_version(CLI::App& app, int& exit_code);

}  // namespace quire::cli
