// quire perplexity: perplexity of a text under a model.
#include "cli/perplexity.h"

#include <iostream>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/text_input.h"

namespace quire::cli {
namespace {

struct PerplexityFlags {
  EngineConfig config;
  std::string text;
  int32_t window = 0;
  bool json = false;
};

int run_perplexity(const PerplexityFlags& flags) {
  fetch_with_progress(flags.config);
  const Perplexity p = measure_perplexity(flags.config, read_text(flags.text), flags.text, flags.window);
  if (flags.json) {
    const nlohmann::ordered_json object = {{"model", p.model},
                                           {"perplexity", p.perplexity},
                                           {"standard_error", p.standard_error},
                                           {"mean_logprob", p.mean_logprob},
                                           {"bits_per_byte", p.bits_per_byte},
                                           {"num_tokens", p.num_tokens},
                                           {"num_windows", p.num_windows},
                                           {"window", p.window},
                                           {"tokens_per_s", p.tokens_per_s}};
    std::cout << object.dump() << "\n";
    return 0;
  }
  std::cout << "perplexity     " << fixed(p.perplexity, 5) << " +- " << fixed(p.standard_error, 5) << "\n"
            << "tokens         " << p.num_tokens << " scored, in " << p.num_windows << " windows of "
            << p.window << "\n"
            << "bits per byte  " << fixed(p.bits_per_byte, 4) << "\n"
            << "tokens/s       " << fixed(p.tokens_per_s, 1) << "\n";
  return 0;
}

}  // namespace

void add_perplexity(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "perplexity", "Measure the perplexity of a text");
  auto flags = std::make_shared<PerplexityFlags>();
  add_engine_flags(*command, flags->config);
  command->add_option("--text", flags->text, "The text; - = standard input")->type_name("FILE")->required();
  command
      ->add_option("--window", flags->window,
                   "Tokens per window (default: the model's maximum length, at most 2048)")
      ->check(CLI::Range(2, 1 << 30));
  command->add_flag("--json", flags->json, "Print a JSON object");
  command->callback([flags, &exit_code] { exit_code = run_perplexity(*flags); });
}

}  // namespace quire::cli
