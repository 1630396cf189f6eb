// Perplexity of a text, computed with prompt log-probabilities.
#include "cli/perplexity.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/strings.h"
#include "cli/progress.h"
#include "io/json_file.h"
#include "quire/llm.h"

namespace quire::cli {
namespace {

constexpr int32_t kDefaultWindow = 2048;
// Windows per batch: enough to fill a step; each one holds its log-probabilities in memory.
constexpr size_t kWindowsAtOnce = 16;

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
  // Standard error of the perplexity, from the variance of the log-probabilities.
  double standard_error() const {
    const double n = static_cast<double>(num_tokens);
    const double variance = std::max(0.0, sum_of_squares / n - mean() * mean());
    return perplexity() * std::sqrt(variance / std::max(1.0, n - 1.0));
  }
};

// Splits the text's tokens into windows of at most `size`, each after the tokenizer's leading special tokens.
// Without such tokens, a window's first token is context only and not scored.
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

Score score(LLM& llm, const std::vector<Prompt>& windows) {
  SamplingParams params;
  params.max_tokens = 0;
  params.prompt_logprobs = 0;
  Score total;
  std::vector<int64_t> tokens_until = {0};  // [num_windows + 1]
  for (const Prompt& window : windows)
    tokens_until.push_back(tokens_until.back() + static_cast<int64_t>(window.token_ids.size()));
  ProgressBar bar("Reading", {.items = "windows", .rate = "tokens"});
  const auto report = [&] {
    const size_t done = std::min(windows.size(), static_cast<size_t>(llm.statistics().num_requests));
    const auto part = static_cast<double>(tokens_until[done]);
    bar.update({.fraction = part / static_cast<double>(tokens_until.back()),
                .num_done = static_cast<int64_t>(done),
                .num_items = static_cast<int64_t>(windows.size()),
                .counted = part});
  };
  for (size_t first = 0; first < windows.size(); first += kWindowsAtOnce) {
    const size_t last = std::min(windows.size(), first + kWindowsAtOnce);
    const std::vector<Prompt> some(windows.begin() + static_cast<ptrdiff_t>(first),
                                   windows.begin() + static_cast<ptrdiff_t>(last));
    for (const Generation& generation :
         run_with_reports([&] { return llm.generate(some, params); }, report)) {
      for (const auto& position : generation.prompt_logprobs) total.add(position.front().logprob);
    }
  }
  return total;
}

}  // namespace

Perplexity measure_perplexity(EngineConfig config, const std::string& text, const std::string& origin,
                              int32_t window) {
  // Windows are independent; cached prefixes would have no log-probabilities.
  config.enable_prefix_caching = false;
  std::optional<ProgressBar> loading(std::in_place, "Loading");
  LLM llm(config, [&](double done) { loading->update(done); });
  loading.reset();
  const ModelDescription model = llm.model();
  if (window > model.max_model_len)
    throw Error(
        cat("--window ", window, " exceeds the model's maximum length of ", model.max_model_len, " tokens"));
  if (window == 0) window = std::min(kDefaultWindow, model.max_model_len);
  const std::vector<Prompt> windows = windows_of(llm, text, window);
  if (windows.empty()) throw Error(cat(origin, ": has fewer than two tokens"));
  int64_t num_computed = 0;
  for (const Prompt& prompt : windows) num_computed += static_cast<int64_t>(prompt.token_ids.size());

  const double begin = monotonic_seconds();
  const Score total = score(llm, windows);
  return {.model = model.name,
          .perplexity = total.perplexity(),
          .standard_error = total.standard_error(),
          .mean_logprob = total.mean(),
          .bits_per_byte = -total.sum / std::log(2.0) / static_cast<double>(text.size()),
          .num_tokens = total.num_tokens,
          .num_windows = static_cast<int64_t>(windows.size()),
          .window = window,
          .tokens_per_s = static_cast<double>(num_computed) / (monotonic_seconds() - begin)};
}

}  // namespace quire::cli
