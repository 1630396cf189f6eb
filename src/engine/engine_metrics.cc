#include "engine/engine_metrics.h"

#include <array>

#include "engine/engine_types.h"
#include "kv/kv_manager.h"

namespace quire {
namespace {

// The bounds are those of vLLM and finer ones below its first, which is too high for small models (10 ms
// between tokens) and for the time in the queue (300 ms).
constexpr std::array<double, 25> kTtftBounds = {.0001, .0002, .0005, .001, .005, .01, .02, .04, .06,
                                                .08,   .1,    .25,   .5,   .75,  1,   2.5, 5,   7.5,
                                                10,    20,    40,    80,   160,  640, 2560};
constexpr std::array<double, 25> kInterTokenBounds = {.0001, .0002, .0005, .001, .002, .005, .01, .025, .05,
                                                      .075,  .1,    .15,   .2,   .3,   .4,   .5,  .75,  1,
                                                      2.5,   5,     7.5,   10,   20,   40,   80};
constexpr std::array<double, 32> kLatencyBounds = {
    .0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .2,  .3,  .5,  .8,  1,    1.5,
    2,     2.5,   5,     10,   15,   20,   30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
constexpr std::array<double, 12> kLoadBounds = {.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 5, 20};
constexpr std::array<double, 17> kTokenBounds = {1,    2,    5,    10,    20,    50,    100,    200,   500,
                                                 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000};
constexpr std::array<double, 13> kIterationBounds = {1,   8,    16,   32,   64,   128,  256,
                                                     512, 1024, 2048, 4096, 8192, 16384};
constexpr std::array<double, 5> kSampleBounds = {1, 2, 5, 10, 20};

double difference(int64_t before, int64_t now) {
  return static_cast<double>(now - before);
}

void observe_tier(KvTierMetrics& metrics, const KvTierStats& before, const KvTierStats& now) {
  if (now.num_blocks == 0) return;
  metrics.usage.set(static_cast<double>(now.num_used) / now.num_blocks);
  metrics.cached_blocks.set(now.num_cached);
  metrics.hits.add(difference(before.num_hits, now.num_hits));
  metrics.evictions.add(difference(before.num_evicted, now.num_evicted));
}

}  // namespace

KvTierMetrics::KvTierMetrics(MetricsRegistry& r, const std::string& tier)
    : usage(r.gauge("kv_tier_usage_perc", "Used blocks of a KV tier over all of them.", {{"tier", tier}})),
      cached_blocks(r.gauge("kv_tier_cached_blocks", "Free blocks of a KV tier with cached content.",
                            {{"tier", tier}})),
      hits(r.counter("kv_tier_hits", "Blocks of cached prefixes taken from a KV tier.", {{"tier", tier}})),
      evictions(r.counter("kv_tier_evictions", "Blocks evicted from a KV tier.", {{"tier", tier}})) {}

AdapterMetrics::AdapterMetrics(MetricsRegistry& r)
    : requests_info(r.info("lora_requests_info",
                           "LoRA adapters with requests that run or wait; the value is the time of the last "
                           "change, in seconds since 1970.")),
      resident(r.gauge("lora_adapters_resident", "LoRA adapters in memory.")),
      memory_bytes(r.gauge("lora_memory_bytes", "Bytes of the LoRA adapters in memory.")),
      loads(r.counter("lora_loads", "LoRA adapters read into memory.")),
      load_failures(r.counter("lora_load_failures", "LoRA adapters that could not be read.")),
      evictions(r.counter("lora_evictions", "LoRA adapters evicted from memory for others.")),
      load_seconds(
          r.histogram("lora_load_seconds", "Time to read a LoRA adapter into memory.", kLoadBounds)) {}

EngineMetrics::EngineMetrics(MetricsRegistry& r, const ModelInfo& model)
    : num_requests_running(r.gauge("num_requests_running", "Sequences in the running batch.")),
      num_requests_waiting(r.gauge("num_requests_waiting", "Sequences waiting to be scheduled.")),
      waiting_for_capacity(r.gauge("num_requests_waiting_by_reason",
                                   "Waiting sequences by reason: capacity = for a place in the batch or "
                                   "KV blocks, deferred = for cached blocks from the disk or the weights "
                                   "of a LoRA adapter.",
                                   {{"reason", "capacity"}})),
      waiting_deferred(r.gauge("num_requests_waiting_by_reason", "", {{"reason", "deferred"}})),
      kv_cache_usage(r.gauge("kv_cache_usage_perc", "Used KV blocks over all KV blocks, 1 is full.")),
      kv_cache_waste(r.gauge("kv_cache_waste_perc",
                             "Allocated but unused KV slots over allocated slots, mean over steps.")),
      weight_memory_bytes(r.gauge("weight_memory_bytes", "Bytes of the model's weights.")),
      kv_cache_memory_bytes(r.gauge("kv_cache_memory_bytes", "Bytes of the KV pool.")),
      startup_seconds(r.gauge("startup_time_seconds", "Seconds from the start of loading until ready.")),
      prefix_cache_queries(r.counter("prefix_cache_queries", "Prompt tokens looked up in the prefix cache.")),
      prefix_cache_hits(r.counter("prefix_cache_hits", "Prompt tokens found in the prefix cache.")),
      num_preemptions(r.counter("num_preemptions", "Preemptions due to a lack of KV blocks.")),
      kv_device(r, "device"),
      kv_host(r, "host"),
      kv_disk(r, "disk"),
      kv_blocks_swapped_out(
          r.counter("kv_blocks_swapped", "Blocks of preempted requests moved.", {{"direction", "out"}})),
      kv_blocks_swapped_in(r.counter("kv_blocks_swapped", "", {{"direction", "in"}})),
      kv_disk_writes(r.counter("kv_disk_writes", "Blocks written to the disk cache.")),
      kv_disk_writes_dropped(
          r.counter("kv_disk_writes_dropped", "Blocks not written: the disk was too slow, full or broken.")),
      kv_disk_reads_failed(
          r.counter("kv_disk_reads_failed", "Slots of the disk cache without an intact block.")),
      adapters(r),
      prompt_tokens(r.counter("prompt_tokens", "Prompt tokens processed.")),
      prompt_tokens_cached(r.counter("prompt_tokens_cached", "Prompt tokens taken from the prefix cache.")),
      generation_tokens(r.counter("generation_tokens", "Tokens generated.")),
      success_stop(
          r.counter("request_success", "Samples that ended, by reason.", {{"finished_reason", "stop"}})),
      success_length(r.counter("request_success", "", {{"finished_reason", "length"}})),
      success_repetition(r.counter("request_success", "", {{"finished_reason", "repetition"}})),
      success_abort(r.counter("request_success", "", {{"finished_reason", "abort"}})),
      success_error(r.counter("request_success", "", {{"finished_reason", "error"}})),
      log_lines_dropped(r.counter(
          "log_lines_dropped", "Log lines dropped because stderr was not read in time or memory ran out.")),
      rejected_invalid(
          r.counter("admission_rejections", "Requests rejected at admission.", {{"reason", "invalid"}})),
      rejected_overloaded(r.counter("admission_rejections", "", {{"reason", "overloaded"}})),
      request_prompt_tokens(
          r.histogram("request_prompt_tokens", "Prompt tokens of finished requests.", kTokenBounds)),
      request_generation_tokens(
          r.histogram("request_generation_tokens", "Generated tokens of finished requests.", kTokenBounds)),
      request_params_n(r.histogram("request_params_n", "The n of finished requests.", kSampleBounds)),
      request_params_max_tokens(
          r.histogram("request_params_max_tokens", "The max_tokens of finished requests.", kTokenBounds)),
      iteration_tokens(r.histogram(
          "iteration_tokens_total",
          "Tokens of a step: generated ones, and those of prompts whose first token it generated.",
          kIterationBounds)),
      time_to_first_token(r.histogram("time_to_first_token_seconds", "Arrival to first token.", kTtftBounds)),
      inter_token_latency(
          r.histogram("inter_token_latency_seconds", "From one token to the next.", kInterTokenBounds)),
      time_per_output_token(r.histogram("request_time_per_output_token_seconds",
                                        "Mean time of a request's tokens after the first.",
                                        kInterTokenBounds)),
      e2e_latency(r.histogram("e2e_request_latency_seconds", "Arrival to last token.", kLatencyBounds)),
      queue_time(r.histogram("request_queue_time_seconds", "Arrival to first scheduling.", kLatencyBounds)),
      prefill_time(
          r.histogram("request_prefill_time_seconds", "First scheduling to first token.", kLatencyBounds)),
      decode_time(r.histogram("request_decode_time_seconds", "First token to last token.", kLatencyBounds)),
      inference_time(
          r.histogram("request_inference_time_seconds", "First scheduling to last token.", kLatencyBounds)) {
  weight_memory_bytes.set(static_cast<double>(model.weight_bytes));
  kv_cache_memory_bytes.set(static_cast<double>(model.kv_pool_bytes));
  startup_seconds.set(model.load_seconds);
  r.gauge("cache_config_info", "The KV cache's configuration.",
          {{"block_size", std::to_string(model.block_size)},
           {"num_gpu_blocks", std::to_string(model.num_blocks)},
           {"cache_dtype", model.kv_cache_dtype}})
      .set(1);
}

void EngineMetrics::observe_kv(const KvStats& before, const KvStats& now) {
  observe_tier(kv_device, before.device, now.device);
  observe_tier(kv_host, before.host, now.host);
  observe_tier(kv_disk, before.disk, now.disk);
  kv_blocks_swapped_out.add(difference(before.num_swapped_out, now.num_swapped_out));
  kv_blocks_swapped_in.add(difference(before.num_swapped_in, now.num_swapped_in));
  kv_disk_writes.add(difference(before.num_disk_writes, now.num_disk_writes));
  kv_disk_writes_dropped.add(difference(before.num_disk_writes_dropped, now.num_disk_writes_dropped));
  kv_disk_reads_failed.add(difference(before.num_disk_reads_failed, now.num_disk_reads_failed));
}

void EngineMetrics::observe_finished_sample(FinishReason reason, int32_t num_tokens) {
  request_generation_tokens.observe(num_tokens);
  switch (reason) {
    case FinishReason::kStop:
      success_stop.add();
      break;
    case FinishReason::kLength:
      success_length.add();
      break;
    case FinishReason::kRepetition:
      success_repetition.add();
      break;
    case FinishReason::kAbort:
      success_abort.add();
      break;
    case FinishReason::kError:
      success_error.add();
      break;
    case FinishReason::kNone:
      break;
  }
}

void EngineMetrics::observe_finished_request(const RequestTimes& times, int32_t num_prompt_tokens,
                                             int64_t num_generated_tokens, const SamplingParams& params) {
  request_prompt_tokens.observe(num_prompt_tokens);
  request_params_n.observe(params.n);
  request_params_max_tokens.observe(params.max_tokens);
  queue_time.observe(times.scheduled - times.arrival);
  if (times.last_token == 0.0) return;
  e2e_latency.observe(times.last_token - times.arrival);
  inference_time.observe(times.last_token - times.scheduled);
  if (num_generated_tokens == 0) {
    // A pooling request: all its tokens are prompt tokens.
    prefill_time.observe(times.last_token - times.scheduled);
    return;
  }
  if (params.use_beam_search) return;  // all tokens are reported at the end
  prefill_time.observe(times.first_token - times.scheduled);
  decode_time.observe(times.last_token - times.first_token);
  const auto tokens_of_a_sample = static_cast<double>(num_generated_tokens) / params.n;
  if (tokens_of_a_sample > 1.0) {
    time_per_output_token.observe((times.last_token - times.first_token) / (tokens_of_a_sample - 1.0));
  }
}

}  // namespace quire
