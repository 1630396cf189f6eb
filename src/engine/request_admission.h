// Decides whether requests are accepted: what the model supports, ranges of parameters, lengths, room in the
// queue. Called on the threads of the callers.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "contract/engine_config.h"
#include "engine/adapter_registry.h"
#include "engine/constraint_compiler.h"
#include "engine/engine_core.h"
#include "engine/engine_types.h"
#include "engine/reasoning_limits.h"
#include "engine/request_batch.h"
#include "engine/word_tokenizer.h"

namespace quire {

class RequestAdmission {
 public:
  // model, adapters, constraints, reasoning, words, core and num_unstarted, the number of requests in the
  // queue (EngineCore), outlive this.
  RequestAdmission(const ModelInfo& model, AdapterRegistry& adapters, const EngineConfig& config,
                   ConstraintCompiler& constraints, ReasoningLimits& reasoning, WordTokenizer& words,
                   EngineCore& core, std::atomic<int32_t>& num_unstarted)
      : model_(model),
        adapters_(adapters),
        max_logprobs_(config.max_logprobs),
        max_queued_(config.max_num_queued_requests),
        constraints_(constraints),
        reasoning_(reasoning),
        words_(words),
        core_(core),
        num_unstarted_(num_unstarted) {}

  // Accepts all requests, which then are in the queue, or none. The metrics count those that are refused.
  // Compiles the constraints that a request asks for, unless its caller has done that.
  Status admit(std::vector<Submission>& requests);

 private:
  Status check_all(std::vector<Submission>& requests);
  Status check(Submission& submission);
  Status compile_constraint(Request& request);
  Status tokenize_words(Request& request);
  Status find_adapter(Submission& submission);
  Status check_task(const Request& request) const;
  Status check_sampling(const SharedSamplingParams& params);
  Status enter_queue(int32_t count);

  const ModelInfo& model_;
  AdapterRegistry& adapters_;
  int32_t max_logprobs_;
  int32_t max_queued_;
  ConstraintCompiler& constraints_;
  ReasoningLimits& reasoning_;
  WordTokenizer& words_;
  EngineCore& core_;
  std::atomic<int32_t>& num_unstarted_;
  std::mutex checked_mutex_;
  std::optional<SharedSamplingParams> checked_;  // the parameters that were found valid last
};

}  // namespace quire
