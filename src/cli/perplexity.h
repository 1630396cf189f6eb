// How well a model foresees a text: what `quire perplexity` prints and `quire quantize` compares.
#pragma once

#include <cstdint>
#include <string>

#include "contract/engine_config.h"

namespace quire::cli {

struct Perplexity {
  std::string model;  // its name
  double perplexity = 0.0;
  double standard_error = 0.0;  // of the perplexity, by the spread of the log-probabilities
  double mean_logprob = 0.0;
  double bits_per_byte = 0.0;
  int64_t num_tokens = 0;  // foreseen
  int64_t num_windows = 0;
  int32_t window = 0;  // tokens
  double tokens_per_s = 0.0;
};

// window 0: the model's context, at most 2048. `origin` stands in errors for where the text is from. Throws
// Error.
Perplexity measure_perplexity(EngineConfig config, const std::string& text, const std::string& origin,
                              int32_t window);

// A file's text; "-": standard input.
std::string read_text(const std::string& path);

}  // namespace quire::cli
