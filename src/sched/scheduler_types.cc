#include "sched/scheduler_types.h"

#include <algorithm>

namespace quire {

SchedulerConfig scheduler_config(const EngineConfig& config) {
  SchedulerConfig scheduler;
  scheduler.max_num_seqs = config.max_num_seqs;
  scheduler.max_num_batched_tokens = config.max_num_batched_tokens > 0
                                         ? config.max_num_batched_tokens
                                         : std::max(kDefaultBatchedTokens, config.max_num_seqs);
  scheduler.max_model_len = config.max_model_len;
  scheduler.long_prefill_token_threshold = config.long_prefill_token_threshold;
  scheduler.enable_prefix_caching = config.enable_prefix_caching;
  scheduler.policy = config.scheduling_policy;
  scheduler.fair_by = config.fair_by;
  scheduler.max_loras = config.max_loras;
  scheduler.preemption_mode = config.preemption_mode;
  scheduler.max_num_partial_prefills = config.max_num_partial_prefills;
  scheduler.ttft_slo = config.ttft_slo;
  scheduler.tpot_slo = config.tpot_slo;
  return scheduler;
}

}  // namespace quire
