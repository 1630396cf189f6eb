// A request, from its submission to its last output. The record is moved from the caller to the engine thread
// and into the scheduler. It contains token ids and numbers only: the caller tokenizes the prompt and
// detokenizes the output.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "contract/adapter.h"
#include "contract/ids.h"
#include "contract/output_constraint.h"
#include "contract/pooling.h"
#include "contract/sampling_params.h"
#include "contract/sampling_words.h"

namespace quire {

struct Request {
  std::vector<TokenId> prompt_token_ids;
  SharedSamplingParams sampling;
  std::optional<PoolingRequest> pooling;  // an embedding or scores instead of tokens; max_tokens is 0
  SharedConstraint constraint;            // what each of the outputs has to be
  // Tokens whose places in the text are reported, ascending; null = none.
  std::shared_ptr<const std::vector<TokenId>> markers;
  int32_t priority = 0;      // lower is scheduled first, with SchedulingPolicy::kPriority
  std::string client;        // name of an API key, or the `user` field
  std::string cache_salt;    // requests share cached prefixes only within one salt
  std::string adapter_name;  // a LoRA adapter; empty = the base model

  // Set by the engine.
  AdapterRef adapter;  // with adapter_name
  RequestId id = -1;
  int64_t client_id = 0;               // whose work it is, for SchedulingPolicy::kFair
  uint64_t seed = 0;                   // seed of the samples
  double arrival = 0.0;                // seconds on the clock that Scheduler::schedule() is given
  std::vector<TokenId> end_token_ids;  // end-of-sequence tokens of the model
  SharedSamplingWords words;           // bad words and sequence breakers of `sampling`
};

// The rule for the length of a prompt. generates: at least one token follows it.
Status check_prompt_length(int64_t num_tokens, bool generates, int32_t max_model_len);

}  // namespace quire
