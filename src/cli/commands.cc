#include "cli/commands.h"

namespace quire::cli {

void add_commands(CLI::App& app, int& exit_code) {
  add_generate(app, exit_code);
  add_chat(app, exit_code);
  add_serve(app, exit_code);
  add_bench(app, exit_code);
  add_tokenize(app, exit_code);
  add_detokenize(app, exit_code);
  add_render(app, exit_code);
  add_parse(app, exit_code);
  add_check_schema(app, exit_code);
  add_inspect(app, exit_code);
  add_bundle(app, exit_code);
  add_perplexity(app, exit_code);
  add_quantize(app, exit_code);
  add_merge(app, exit_code);
  add_simulate(app, exit_code);
  add_top(app, exit_code);
  add_pull(app, exit_code);
  add_run(app, exit_code);
  add_list(app, exit_code);
  add_rm(app, exit_code);
  add_completion(app, exit_code);
  add_man(app, exit_code);
  add_version(app, exit_code);
}

}  // namespace quire::cli
