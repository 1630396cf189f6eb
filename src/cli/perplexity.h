// Perplexity of a text, for `quire perplexity` and the comparison of `quire quantize --eval-text`.
#pragma once

#include <cstdint>
#include <string>

#include "contract/engine_config.h"

namespace quire::cli {

struct Perplexity {
  std::string model;  // name of the model
  double perplexity = 0.0;
  double standard_error =
      0.0;  // standard error of the perplexity, from the variance of the log-probabilities
  double mean_logprob = 0.0;
  double bits_per_byte = 0.0;
  int64_t num_tokens = 0;  // scored tokens
  int64_t num_windows = 0;
  int32_t window = 0;  // tokens
  double tokens_per_s = 0.0;
};

// Loads the model and scores `text` in windows of `window` tokens; 0 = the model's maximum length, at most
// 2048. `origin` names the source of the text in errors. Throws Error.
Perplexity measure_perplexity(EngineConfig config, const std::string& text, const std::string& origin,
                              int32_t window);

}  // namespace quire::cli
