// The requests of a benchmark, drawn at random or read from a file.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "quire/llm.h"

namespace quire::cli {

// One request. Exactly one of text, chat and token_ids is set; before fill_tokens() a random request has
// a length only.
struct BenchRequest {
  std::string text;
  std::string chat;  // a JSON object with messages
  std::vector<TokenId> token_ids;
  int32_t input_len = 0;   // tokens; 0 = unknown until the text is tokenized
  int32_t output_len = 0;  // tokens to generate
  double arrival = 0.0;    // seconds since the first request of the trace
  std::string lora;        // an adapter; empty = the base model
  bool random() const { return text.empty() && chat.empty() && token_ids.empty(); }
};

struct RandomLengths {
  int32_t input_len = 128;
  int32_t output_len = 128;
  double range_ratio = 0.0;  // lengths are uniform in [len * (1 - r), len * (1 + r)], at least 1
};
std::vector<BenchRequest> random_requests(int64_t count, const RandomLengths& lengths, uint64_t seed);

// Returns the number of tokens in a text, without special tokens.
using TokenCounter = std::function<int64_t(const std::string& text)>;

struct DatasetOptions {
  int64_t num_prompts = 100;      // maximum number of requests to read
  int32_t output_len = 128;       // for requests without a length in the file
  bool force_output_len = false;  // output_len overrides the lengths in the file
};

// Reads a dataset. The file extension selects the format:
//   .json   ShareGPT: a list of {"conversations": [{"from", "value"}, …]}. The first turn is the prompt, the
//           length of the second the output length.
//   .jsonl  prompts of `quire generate` (max_tokens is the output length), {"turns": […]},
//           {"conversations": …}, or a trace with {"input_length", "output_length"}
//   .csv    a trace with the columns ContextTokens and GeneratedTokens, used with random token ids
//   other   one prompt per line
// Throws Error with file and line, also if no request is usable.
std::vector<BenchRequest> read_dataset(const std::string& path, const DatasetOptions& options,
                                       const TokenCounter& count_tokens);

// Truncates requests of known length so that input and output fit into max_model_len (0 = no limit): first
// the output, leaving room for a prompt, then the prompt. Returns the number of truncated requests. Texts and
// conversations are not changed.
int64_t cut_lengths(std::vector<BenchRequest>& requests, int32_t max_model_len);

// Gives random requests token ids in [first, last) that satisfy `allowed` (empty = all ids).
void fill_tokens(std::vector<BenchRequest>& requests, TokenId first, TokenId last, uint64_t seed,
                 const std::function<bool(TokenId)>& allowed = {});
// Gives random requests common English words, one per token.
void fill_words(std::vector<BenchRequest>& requests, uint64_t seed);

int64_t total_output_len(const std::vector<BenchRequest>& requests);
// Mean lengths in tokens, rounded.
int64_t mean_input_len(const std::vector<BenchRequest>& requests);
int64_t mean_output_len(const std::vector<BenchRequest>& requests);

}  // namespace quire::cli
