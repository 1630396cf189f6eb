// Everything an engine is started with. The command line, the config file and the C++ and Python libraries
// all fill this record.
#pragma once

#include <cstdint>
#include <string>

namespace quire {

enum class SchedulingPolicy { kFcfs, kPriority, kMlfq };

struct EngineConfig {
  std::string model;           // directory; empty: the embedded model
  std::string dtype = "auto";  // auto | float32 | bfloat16 | float16: how float weights are kept in memory
  std::string kv_cache_dtype = "auto";  // auto (as the weights) | float32 | bfloat16 | float16
  int32_t max_model_len = 0;            // 0: the model's, cut to what fits
  int32_t block_size = 16;
  int64_t kv_cache_memory = 0;  // bytes; 0: 40 % of the free memory
  int32_t max_num_seqs = 256;
  int32_t max_num_batched_tokens = 0;  // 0: 2048, at least max_num_seqs
  int32_t long_prefill_token_threshold =
      0;  // the most tokens of one prompt in a step; 0: no limit but the budget
  bool enable_prefix_caching = true;
  SchedulingPolicy scheduling_policy = SchedulingPolicy::kFcfs;
  int32_t max_num_queued_requests = 4096;  // waiting requests; one more is refused
  int32_t max_logprobs = 20;
  int32_t threads = 0;        // 0: the physical cores this process may use
  uint64_t seed = 0;          // what requests without a seed draw theirs from
  std::string chat_template;  // a file that replaces the model's
  std::string generation_config =
      "auto";  // auto: sampling defaults from the model's generation_config.json; none
};

}  // namespace quire
