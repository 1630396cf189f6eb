// What a request asks of the sampler and of the end of its text. Plain data, the same record from the HTTP
// body to the executor. Field names, defaults and ranges are those of the OpenAI API and of vLLM.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quire {

using TokenId = int32_t;  // an entry of the vocabulary; -1 is no token

// When a beam search ends (transformers' meaning of it).
enum class EarlyStopping : uint8_t {
  kNo,     // when no open beam looks able to beat the worst finished one at the length it has now
  kYes,    // as soon as beam_width texts are finished
  kNever,  // when no open beam can beat the worst finished one at any length
};

struct SamplingParams {
  int32_t n = 1;                    // samples for one prompt
  int32_t max_tokens = 16;          // generated tokens at the most; 0 scores the prompt only (with echo)
  float temperature = 1.0F;         // [0, 2]; below 1e-5 is greedy
  float top_p = 1.0F;               // (0, 1]
  int32_t top_k = 0;                // 0 or -1: off
  float min_p = 0.0F;               // [0, 1]
  float repetition_penalty = 1.0F;  // > 0, over prompt and output
  float presence_penalty = 0.0F;    // [-2, 2], over output
  float frequency_penalty = 0.0F;   // [-2, 2], over output
  std::optional<int64_t> seed;      // none: the engine draws one for each request
  std::vector<std::string> stop;
  std::vector<TokenId> stop_token_ids;
  bool include_stop_str_in_output = false;
  bool ignore_eos = false;          // the model's end tokens do not stop; stop_token_ids still do
  int32_t min_tokens = 0;           // end and stop tokens are masked until so many are generated
  std::optional<int32_t> logprobs;  // top-k alternatives of each generated token; -1 the whole vocabulary
  std::optional<int32_t>
      prompt_logprobs;  // the same of each prompt token; such a request reads no cached prefix
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to the logits, each in [-100, 100]
  std::vector<TokenId> allowed_token_ids;             // empty: all
  // Beam search instead of sampling: `beam_width` open texts, the `n` best finished ones are the answer, in
  // order of cumulative log-probability / length^length_penalty. It takes no temperature, no truncation, no
  // penalties and no stop strings, and nothing is streamed: the texts come when all are known.
  bool use_beam_search = false;
  int32_t beam_width = 0;  // the API's best_of; 0: n
  float length_penalty = 1.0F;
  EarlyStopping early_stopping = EarlyStopping::kNo;
  bool skip_special_tokens = true;
  bool spaces_between_special_tokens = true;

  bool greedy() const { return temperature < 1e-5F; }
  // Sequences that run for the request at once.
  int32_t num_sequences() const { return use_beam_search && beam_width > n ? beam_width : n; }
};

}  // namespace quire
