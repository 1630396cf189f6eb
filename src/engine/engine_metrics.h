// The engine's metrics, with vLLM's names. Created once and updated by the engine thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/metrics.h"
#include "contract/request_output.h"
#include "contract/sampling_params.h"

namespace quire {

struct KvStats;
struct ModelInfo;

// Metrics of one tier of the KV cache, with the label `tier`.
struct KvTierMetrics {
  KvTierMetrics(MetricsRegistry& registry, const std::string& tier);

  Gauge& usage;
  Gauge& cached_blocks;
  Counter& hits;
  Counter& evictions;
};

// Metrics of LoRA adapters.
struct AdapterMetrics {
  explicit AdapterMetrics(MetricsRegistry& registry);

  InfoGauge& requests_info;
  Gauge& resident;
  Gauge& memory_bytes;
  Counter& loads;
  Counter& load_failures;
  Counter& evictions;
  Histogram& load_seconds;
};

struct EngineMetrics {
  EngineMetrics(MetricsRegistry& registry, const ModelInfo& model);

  Gauge& num_requests_running;
  Gauge& num_requests_waiting;
  Gauge& waiting_for_capacity;  // num_requests_waiting_by_reason
  Gauge& waiting_deferred;
  Gauge& kv_cache_usage;
  Gauge& kv_cache_waste;
  Gauge& weight_memory_bytes;
  Gauge& kv_cache_memory_bytes;
  Gauge& startup_seconds;
  Counter& prefix_cache_queries;
  Counter& prefix_cache_hits;
  Counter& num_preemptions;
  KvTierMetrics kv_device;
  KvTierMetrics kv_host;
  KvTierMetrics kv_disk;
  Counter& kv_blocks_swapped_out;
  Counter& kv_blocks_swapped_in;
  Counter& kv_disk_writes;
  Counter& kv_disk_writes_dropped;
  Counter& kv_disk_reads_failed;
  AdapterMetrics adapters;
  Counter& prompt_tokens;
  Counter& prompt_tokens_cached;
  Counter& generation_tokens;
  Counter& success_stop;
  Counter& success_length;
  Counter& success_repetition;
  Counter& success_abort;
  Counter& success_error;
  Counter& log_lines_dropped;
  Counter& rejected_invalid;
  Counter& rejected_overloaded;
  Histogram& request_prompt_tokens;
  Histogram& request_generation_tokens;
  Histogram& request_params_n;
  Histogram& request_params_max_tokens;
  Histogram& iteration_tokens;
  Histogram& time_to_first_token;
  Histogram& inter_token_latency;
  Histogram& time_per_output_token;
  Histogram& e2e_latency;
  Histogram& queue_time;
  Histogram& prefill_time;
  Histogram& decode_time;
  Histogram& inference_time;

  // Adds the differences between two snapshots.
  void observe_kv(const KvStats& before, const KvStats& now);
  void observe_finished_sample(FinishReason reason, int32_t num_tokens);
  void observe_finished_request(const RequestTimes& times, int32_t num_prompt_tokens,
                                int64_t num_generated_tokens, const SamplingParams& params);
};

}  // namespace quire
