// Options of an engine. The fields correspond to the command-line flags; the command line, config files and
// the library all fill this record.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quire/logprobs_mode.h"

namespace quire {

enum class SchedulingPolicy : uint8_t {
  kFcfs,      // first come, first served
  kPriority,  // lowest `priority` value first; preempts running requests
  kMlfq,      // multi-level feedback queue: least work received first; preempts running requests
  kFair,      // client with the least work received first (virtual token counter); see FairBy
};

// Whose work SchedulingPolicy::kFair counts.
enum class FairBy : uint8_t {
  kClient,   // the API key, or the `user` field
  kAdapter,  // the name of the LoRA adapter; the base model counts as one
};

// Handling of the KV cache of a preempted sequence.
enum class PreemptionMode : uint8_t {
  kAuto,       // the cheaper of the two
  kRecompute,  // dropped, and recomputed when the sequence resumes
  kSwap,       // copied to host memory (swap_space) and back
};

// Default of max_num_batched_tokens: large enough for efficient matrix products, small enough that running
// requests do not wait for a whole prompt.
inline constexpr int32_t kDefaultBatchedTokens = 512;

// A LoRA adapter: a directory with adapter_config.json and adapter_model.safetensors of PEFT, or a GGUF file.
struct LoraModule {
  std::string name;  // that requests use; not that of another adapter
  std::string path;
};

struct EngineOptions {
  // Model directory or GGUF file; empty = the embedded model. If no such path exists, a model on the Hugging
  // Face hub: org/name, org/name:TAG for a GGUF quantization, or org/name/file.gguf. It is downloaded unless
  // it is in the cache.
  std::string model;
  std::string revision;        // branch, tag or commit of a model on the hub; empty = main
  std::string dtype = "auto";  // float weights: auto (as in the checkpoint), float32, bfloat16, float16
  // Quantizes float weights at load time: auto (no quantization), int8, w8a8, int4, int4-g64, int4-g128,
  // w8a16, w4a16.
  std::string quantization = "auto";
  std::string kv_cache_dtype = "auto";  // auto (as the weights), float32, bfloat16, float16, fp8_e4m3,
                                        // fp8_e5m2, int8
  // Activations in products with quantized checkpoints: auto (int8 for GGUF files and W8A8, int16 for
  // others), float32, int16, int8.
  std::string activation_dtype = "auto";
  // Variants of kernels that are faster on some processors than on others, with the same results: measure
  // (for about 50 ms when the weights have been read), off (those that are faster on most).
  std::string kernel_tuning = "measure";
  std::string weight_cache;     // directory of packed weights, mapped by later starts; empty = none
  int32_t max_model_len = 0;    // tokens; 0 = the model's limit, reduced to what fits
  std::string runner = "auto";  // auto (from the model's files), generate, pooling (embeddings or scores)
  int32_t block_size = 16;      // tokens per block of the KV cache
  int64_t kv_cache_memory = 0;  // bytes; 0 = 40 % of the free memory
  int32_t max_num_seqs = 256;   // maximum number of running sequences
  int32_t max_num_batched_tokens = 0;        // per step; 0 = max(kDefaultBatchedTokens, max_num_seqs)
  int32_t long_prefill_token_threshold = 0;  // maximum tokens per sequence and step; 0 = no limit
  int32_t max_num_partial_prefills = 0;  // maximum prompts in chunked prefill at the same time; 0 = no limit
  bool enable_prefix_caching = true;
  SchedulingPolicy scheduling_policy = SchedulingPolicy::kFcfs;
  FairBy fair_by = FairBy::kClient;
  PreemptionMode preemption_mode = PreemptionMode::kAuto;
  int64_t swap_space = 0;                          // bytes of host memory for evicted and swapped blocks
  std::string kv_disk_cache;                       // directory for cached prefixes; empty = none
  int64_t kv_disk_cache_size = int64_t{10} << 30;  // maximum size in bytes
  double ttft_slo = 0.0;                           // target time to first token in seconds; 0 = none
  double tpot_slo = 0.0;                           // target time per output token in seconds; 0 = none
  int32_t max_num_queued_requests = 4096;          // maximum waiting requests; more are rejected
  int32_t max_logprobs = 20;                       // maximum logprobs per token that a request may ask for
  LogprobsMode logprobs_mode = LogprobsMode::kRawLogprobs;
  int64_t grammar_cache_size = int64_t{256}
                               << 20;  // bytes for compiled output constraints (JSON Schemas, ...)
  // Append text that a constraint leaves no choice for without computing its tokens one by one. The outputs
  // are the same.
  bool jump_ahead = true;
  std::string device = "auto";  // device that computes the model: auto (the CPU), cpu
  std::string profile;          // file for a profile of the steps, written at the end; empty = none
  int32_t threads = 0;          // compute threads; 0 = the physical cores available to this process
  uint64_t seed = 0;            // for requests without a seed
  bool enable_lora = false;     // adapters may be loaded while the engine runs; implied by the following two
  std::vector<LoraModule> lora_modules;  // adapters that requests can name from the start
  std::string lora_dir;  // its directories and GGUF files are adapters, registered when first named
  // Maximum number of different adapters in one step; if more have requests, they take turns.
  int32_t max_loras = 32;
  int32_t max_lora_rank = 16;  // maximum rank of an adapter
  int32_t max_cpu_loras = 0;   // maximum number of adapters in memory; 0 = as many as fit
  // Bytes for the adapters in memory. 0 = 256 MiB or, if that is more, what lora_modules take, at most 32
  // times the largest.
  int64_t lora_memory = 0;
  std::string chat_template;  // file that replaces the model's chat template
  // Sampling defaults: auto (the model's generation_config.json) or none (neutral defaults).
  std::string generation_config = "auto";
  std::string
      override_generation_config;  // a JSON object with fields of generation_config.json; empty = none
};

}  // namespace quire
