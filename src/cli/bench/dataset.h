// The requests of a benchmark: random lengths, or those of a file. Nothing here knows how they are sent.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "quire/llm.h"

namespace quire::cli {

// One request to be. One of text, messages and token_ids is given, or, until fill_tokens(), only a length.
struct BenchRequest {
  std::string text;
  std::vector<ChatMessage> messages;
  std::vector<TokenId> token_ids;
  int32_t input_len = 0;   // tokens; 0 where only the tokenizer knows
  int32_t output_len = 0;  // tokens to be generated
  double arrival = 0.0;    // seconds after the first of a trace that has times
  bool random() const { return text.empty() && messages.empty() && token_ids.empty(); }
};

struct RandomLengths {
  int32_t input_len = 128;
  int32_t output_len = 128;
  double range_ratio = 0.0;  // lengths are uniform in [len * (1 - r), len * (1 + r)], at least 1
};
std::vector<BenchRequest> random_requests(int64_t count, const RandomLengths& lengths, uint64_t seed);

// How many tokens a text has, without those that a tokenizer puts around it.
using TokenCounter = std::function<int64_t(const std::string& text)>;

struct DatasetOptions {
  int64_t num_prompts = 100;      // the file's first so many; fewer where it has fewer
  int32_t output_len = 128;       // where the file names none
  bool force_output_len = false;  // output_len counts even where the file names one
};

// Reads FILE by its ending and content:
//   .json   ShareGPT: a list of {"conversations": [{"from", "value"}, …]}; first turn the prompt, the length
//   of the second the output's .jsonl  prompts of `quire generate` (max_tokens is the output's length),
//   {"turns": […]}, {"conversations": …}, or a trace's
//           {"input_length", "output_length"}
//   .csv    a trace with the columns ContextTokens and GeneratedTokens: random token ids of these lengths
//   else    one prompt a line
// Throws Error naming file and place; also where nothing is left.
std::vector<BenchRequest> read_dataset(const std::string& path, const DatasetOptions& options,
                                       const TokenCounter& count_tokens);

// Cuts requests whose length is known so that input and output fit into max_model_len (0: any): the output to
// leave room for a prompt, then the prompt. Returns how many it cut. Texts and messages are left as they are.
int64_t cut_lengths(std::vector<BenchRequest>& requests, int32_t max_model_len);

// Gives requests that are lengths only random token ids in [first, last) that `allowed` takes (empty: all).
void fill_tokens(std::vector<BenchRequest>& requests, TokenId first, TokenId last, uint64_t seed,
                 const std::function<bool(TokenId)>& allowed = {});
// Gives them common words instead, one for a token.
void fill_words(std::vector<BenchRequest>& requests, uint64_t seed);

// The mean lengths, rounded, for the report.
int64_t mean_input_len(const std::vector<BenchRequest>& requests);
int64_t mean_output_len(const std::vector<BenchRequest>& requests);

}  // namespace quire::cli
