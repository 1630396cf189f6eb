// What an engine is started with. The fields are the command line's flags; every door (command line, config
// file, C++ and Python libraries) fills this one record.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

enum class SchedulingPolicy : uint8_t {
  kFcfs,      // first come, first served
  kPriority,  // the lower `priority` first; may take the place of what runs
  kMlfq,      // multi-level feedback queue: who has had less work is served first
  kFair,      // clients in turn by the work they have had (virtual token counter)
};

// What becomes of the KV cache of a sequence that must give way.
enum class PreemptionMode : uint8_t {
  kAuto,       // whichever costs less time
  kRecompute,  // forgotten, computed again
  kSwap,       // moved to the host pool (swap_space), moved back
};

// max_num_batched_tokens where none is given: enough rows to keep the kernels busy, few enough that running
// streams wait for a prompt's chunk and not for a whole prompt.
inline constexpr int32_t kDefaultBatchedTokens = 512;

struct EngineOptions {
  std::string model;           // directory; empty: the embedded model
  std::string dtype = "auto";  // auto, float32, bfloat16, float16
  // auto (none), int8, w8a8, int4, int4-g64, int4-g128, w8a16, w4a16: what float weights are rounded to
  std::string quantization = "auto";
  std::string kv_cache_dtype = "auto";  // auto (as the weights), float32, bfloat16, float16, fp8_e4m3,
                                        // fp8_e5m2, int8
  // Of products with the codes of quantized checkpoints: auto (int8 for GGUF files and W8A8, else float32),
  // float32, int8
  std::string activation_dtype = "auto";
  // Directory that keeps packed weights for later starts, which then map them; empty: none
  std::string weight_cache;
  int32_t max_model_len = 0;  // 0: the model's, cut to what fits
  // auto: what the model's files say; generate; pooling: embeddings (or scores) instead of texts
  std::string runner = "auto";
  int32_t block_size = 16;      // tokens in a block of the KV cache
  int64_t kv_cache_memory = 0;  // bytes; 0: 40 % of the free memory
  int32_t max_num_seqs = 256;
  int32_t max_num_batched_tokens = 0;        // 0: kDefaultBatchedTokens, at least max_num_seqs
  int32_t long_prefill_token_threshold = 0;  // tokens of one sequence in one step; 0: the step's budget
  int32_t max_num_partial_prefills = 0;      // prompts that are computed in chunks at once; 0: any number
  bool enable_prefix_caching = true;
  SchedulingPolicy scheduling_policy = SchedulingPolicy::kFcfs;
  PreemptionMode preemption_mode = PreemptionMode::kAuto;
  int64_t swap_space = 0;                          // bytes of host memory for blocks that leave the pool
  std::string kv_disk_cache;                       // directory for cached prefixes; empty: none
  int64_t kv_disk_cache_size = int64_t{10} << 30;  // bytes of it at the most
  double ttft_slo = 0.0;                           // seconds to the first token aimed at; 0: none
  double tpot_slo = 0.0;                           // seconds between tokens aimed at; 0: none
  int32_t max_num_queued_requests = 4096;          // waiting requests; one more is refused
  int32_t max_logprobs = 20;
  std::string profile;        // file for a profile of the steps, written at the end; empty: none
  int32_t threads = 0;        // 0: the physical cores this process may use
  uint64_t seed = 0;          // what requests without a seed draw theirs from
  std::string chat_template;  // a file that replaces the model's
  std::string generation_config =
      "auto";  // auto: sampling defaults from the model's generation_config.json; none: neutral ones
};

}  // namespace quire
