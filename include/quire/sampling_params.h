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
  bool skip_special_tokens = true;
  bool spaces_between_special_tokens = true;

  bool greedy() const { return temperature < 1e-5F; }
};

}  // namespace quire
