// Configuration and results of the scheduler, as plain data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "contract/engine_config.h"
#include "contract/ids.h"
#include "contract/request_output.h"
#include "contract/step_result.h"
#include "kv/kv_manager.h"

namespace quire {

struct SchedulerConfig {
  int32_t max_num_seqs = 256;                // samples running at once
  int32_t max_num_batched_tokens = 2048;     // tokens computed in one step
  int32_t max_model_len = 4096;              // prompt and generated tokens of one sequence
  int32_t long_prefill_token_threshold = 0;  // prompt tokens of one sequence per step; 0 = no limit
  bool whole_prompts = false;                // bidirectional attention: a prompt is computed in one step
  bool enable_prefix_caching = true;
  SchedulingPolicy policy = SchedulingPolicy::kFcfs;
  FairBy fair_by = FairBy::kClient;  // what Request::client_id stands for
  int32_t max_loras = 32;            // different adapters in one step, see AdapterTurns
  PreemptionMode preemption_mode = PreemptionMode::kAuto;
  int32_t max_num_partial_prefills = 0;  // prompts computed in chunks at once; 0 = no limit
  double ttft_slo = 0.0;                 // target for the time to first token, seconds; 0 = none
  double tpot_slo = 0.0;                 // target for the time per output token, seconds; 0 = none
  int64_t guard_delay = 256;             // kMlfq: steps, see FeedbackLevels
  uint64_t hash_seed = 0;                // seed of the block hashes; must not be known to clients
  int32_t hash_bits = 128;               // see BlockHasher
};

// The most tokens of one prompt in a step.
inline int32_t max_chunk(const SchedulerConfig& config) {
  const int32_t threshold = config.long_prefill_token_threshold;
  return threshold > 0 ? std::min(threshold, config.max_num_batched_tokens) : config.max_num_batched_tokens;
}

// The configuration that the options name; a model may require more tokens per step and limit the length.
SchedulerConfig scheduler_config(const EngineConfig& config);

// The new output of one sample in one step (vLLM: EngineCoreOutput).
struct SequenceUpdate {
  RequestId request = -1;
  int32_t index = 0;  // sample index
  SeqId seq = -1;
  std::span<const SampledToken> sampled;  // its new tokens, part of StepResult::sampled
  FinishReason finish_reason = FinishReason::kNone;
  std::optional<TokenId> stop_token;                // the stop_token_ids entry that finished it
  std::string error;                                // kError: the reason
  const PromptLogprobs* prompt_logprobs = nullptr;  // part of StepResult::prompt_logprobs
  const PooledVector* pooled = nullptr;             // part of StepResult::pooled, with the last update
  // All hypotheses of a beam search, part of StepResult::beams. Apart from prompt log-probabilities and
  // errors this is the only update of such a request; it belongs to sample 0.
  const BeamResult* beam = nullptr;
  bool request_finished = false;  // the last update of the request
};

// Valid until the next commit; spans and pointers as long as the StepResult.
struct CommitResult {
  std::vector<SequenceUpdate> updates;  // samples without new output are left out
  std::vector<RequestId> started;       // requests that were computed for the first time in this step
};

struct SchedulerStats {
  int32_t num_running = 0;      // sequences
  int32_t num_waiting = 0;      // sequences, preempted ones included
  int64_t num_preemptions = 0;  // preempted requests, and samples preempted for others of their request
  int64_t num_swap_outs = 0;    // preempted requests that were swapped out; the others are recomputed
  int64_t num_swap_ins = 0;
  int32_t num_loading = 0;            // requests that wait for blocks from the disk
  int64_t num_loads = 0;              // how often a request began to load blocks from the disk
  int64_t num_finished_requests = 0;  // aborted ones included
  int64_t num_steps = 0;              // committed steps
  int64_t num_computed_tokens = 0;    // over all steps, recomputed tokens included
  int64_t prefix_queried_tokens = 0;  // prompt tokens looked up, once per request
  int64_t prefix_hit_tokens = 0;      // those of them that were cached
  KvStats kv;
  double mean_kv_waste = 0.0;  // internal fragmentation: empty slots / slots held, averaged over all commits
};

}  // namespace quire
