// quire perplexity: how well a model foresees a text.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/strings.h"
#include "cli/commands.h"
#include "cli/flags.h"
#include "cli/progress.h"
#include "io/json_file.h"
#include "quire/llm.h"

namespace quire::cli {
namespace {

constexpr int32_t kDefaultWindow = 2048;
// Windows in work at once: enough for full steps, and few whose log-probabilities wait in memory.
constexpr size_t kWindowsAtOnce = 16;

struct PerplexityFlags {
  EngineConfig config;
  std::string text;
  int32_t window = 0;
  bool json = false;
};

struct Score {
  int64_t num_tokens = 0;
  double sum = 0.0;  // of log-probabilities
  double sum_of_squares = 0.0;

  void add(double logprob) {
    ++num_tokens;
    sum += logprob;
    sum_of_squares += logprob * logprob;
  }
  double mean() const { return sum / static_cast<double>(num_tokens); }
  double perplexity() const { return std::exp(-mean()); }
  // Of the perplexity, by the spread of the log-probabilities.
  double standard_error() const {
    const double n = static_cast<double>(num_tokens);
    const double variance = std::max(0.0, sum_of_squares / n - mean() * mean());
    return perplexity() * std::sqrt(variance / std::max(1.0, n - 1.0));
  }
};

// The text's tokens in runs, each behind what the tokenizer puts before a text. Without such a token a run's
// first token is given and not foreseen.
std::vector<Prompt> windows_of(const LLM& llm, const std::string& text, int32_t size) {
  const std::vector<TokenId> tokens = llm.tokenize(text, false);
  const std::vector<TokenId> whole = llm.tokenize(text, true);
  const auto begin = std::search(whole.begin(), whole.end(), tokens.begin(), tokens.end());
  const std::vector<TokenId> lead(whole.begin(), begin == whole.end() ? whole.begin() : begin);
  const size_t run = static_cast<size_t>(size) - std::min(lead.size(), static_cast<size_t>(size) - 1);
  std::vector<Prompt> windows;
  for (size_t i = 0; i < tokens.size(); i += run) {
    std::vector<TokenId> window = lead;
    window.insert(window.end(), tokens.begin() + static_cast<ptrdiff_t>(i),
                  tokens.begin() + static_cast<ptrdiff_t>(std::min(tokens.size(), i + run)));
    if (window.size() > 1) windows.emplace_back(std::move(window));
  }
  return windows;
}

std::string read_text(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  return read_text_file(path, int64_t{1} << 32);
}

Score score(LLM& llm, const std::vector<Prompt>& windows) {
  SamplingParams params;
  params.max_tokens = 0;
  params.prompt_logprobs = 0;
  Score total;
  ProgressBar bar("Reading");
  for (size_t first = 0; first < windows.size(); first += kWindowsAtOnce) {
    const size_t last = std::min(windows.size(), first + kWindowsAtOnce);
    const std::vector<Prompt> some(windows.begin() + static_cast<ptrdiff_t>(first),
                                   windows.begin() + static_cast<ptrdiff_t>(last));
    for (const Generation& generation : llm.generate(some, params)) {
      for (const auto& position : generation.prompt_logprobs) total.add(position.front().logprob);
    }
    bar.update(static_cast<double>(last) / static_cast<double>(windows.size()));
  }
  return total;
}

int run_perplexity(PerplexityFlags flags) {
  const std::string text = read_text(flags.text);
  // Each window is computed for itself.
  flags.config.enable_prefix_caching = false;
  std::optional<ProgressBar> loading(std::in_place, "Loading");
  LLM llm(flags.config, [&](double done) { loading->update(done); });
  loading.reset();
  const ModelDescription model = llm.model();
  if (flags.window > model.max_model_len)
    throw Error(cat("--window: the model takes ", model.max_model_len, " tokens, not ", flags.window));
  const int32_t window = flags.window > 0 ? flags.window : std::min(kDefaultWindow, model.max_model_len);
  const std::vector<Prompt> windows = windows_of(llm, text, window);
  if (windows.empty()) throw Error(cat(flags.text, ": there is no text to foresee"));
  int64_t num_computed = 0;
  for (const Prompt& prompt : windows) num_computed += static_cast<int64_t>(prompt.token_ids.size());

  const double begin = monotonic_seconds();
  const Score result = score(llm, windows);
  const double rate = static_cast<double>(num_computed) / (monotonic_seconds() - begin);
  const double bits_per_byte = -result.sum / std::log(2.0) / static_cast<double>(text.size());
  if (flags.json) {
    const nlohmann::ordered_json object = {{"model", model.name},
                                           {"perplexity", result.perplexity()},
                                           {"standard_error", result.standard_error()},
                                           {"mean_logprob", result.mean()},
                                           {"bits_per_byte", bits_per_byte},
                                           {"num_tokens", result.num_tokens},
                                           {"num_windows", windows.size()},
                                           {"window", window},
                                           {"tokens_per_s", rate}};
    std::cout << object.dump() << "\n";
    return 0;
  }
  std::cout << "perplexity     " << fixed(result.perplexity(), 5) << " +- "
            << fixed(result.standard_error(), 5) << "\n"
            << "tokens         " << result.num_tokens << " foreseen, in " << windows.size() << " windows of "
            << window << "\n"
            << "bits a byte    " << fixed(bits_per_byte, 4) << "\n"
            << "tokens/s       " << fixed(rate, 1) << "\n";
  return 0;
}

}  // namespace

void add_perplexity(CLI::App& app, int& exit_code) {
  CLI::App* command = add_command(app, "perplexity", "How well a model foresees a text");
  auto flags = std::make_shared<PerplexityFlags>();
  add_engine_flags(*command, flags->config);
  command->add_option("--text", flags->text, "The text; -: standard input")->type_name("FILE")->required();
  command
      ->add_option("--window", flags->window,
                   "Tokens that are read at once; default: the model's context, at most 2048")
      ->check(CLI::Range(2, 1 << 30));
  command->add_flag("--json", flags->json, "As a JSON object");
  command->callback([flags, &exit_code] { exit_code = run_perplexity(*flags); });
}

}  // namespace quire::cli
