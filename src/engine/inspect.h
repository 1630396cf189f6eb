// Describes the architecture, size and memory needs of a model without reading its weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "contract/engine_config.h"
#include "contract/kv_layout.h"

namespace quire {

struct TensorReport {
  std::string name;
  std::string dtype;
  std::string shape;  // "[576, 192]"
  int64_t bytes = 0;
};

// All tensors of one format.
struct FormatReport {
  std::string name;
  int64_t tensors = 0;
  int64_t parameters = 0;
  int64_t bytes = 0;  // including scales and zero points

  // Bits per weight, including scales and zero points.
  double bits() const {
    return parameters == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(parameters);
  }
};

struct ModelReport {
  std::string name;
  std::string architecture;
  std::string task;                   // "generate", "embed" or "classify"
  bool is_encoder = false;            // keeps no keys and values between steps
  int64_t num_parameters = 0;         // in the file; a tied embedding counts once
  int64_t weight_bytes = 0;           // in the file
  std::vector<FormatReport> formats;  // formats in the file, by name
  std::string quantization;           // as configured; empty = none
  int64_t weight_memory = 0;          // bytes of the weights in memory
  int32_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;  // 0 = no MLP and no experts
  int32_t num_heads = 0;          // 0 = no attention
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int64_t vocab_size = 0;
  int64_t max_model_len = 0;
  bool tied_embeddings = false;
  std::string kv_cache_dtype;
  int64_t kv_bytes_per_token = 0;      // while every layer keeps the token, padding included
  int64_t kv_bytes_per_old_token = 0;  // once it has left all windows
  int64_t free_memory = 0;             // what the process can use now
  int64_t kv_bytes_per_sequence = 0;   // one sequence of max_model_len tokens that decodes
  KvLayout kv_layout;                  // num_blocks is 0
  int64_t kv_memory = 0;               // assumed size of the KV pool, in bytes
  int64_t state_bytes = 0;             // recurrent state per sequence, regardless of its length
  int64_t kv_tokens = 0;               // the longest sequence that fits
  int64_t full_sequences = 0;          // sequences of max_model_len tokens that fit at once
  std::vector<TensorReport> tensors;
};

// Throws Error. kv_cache_memory 0: what `quire serve` would use now. A directory with only a config.json is
// enough for everything except the weights, which are then 0.
ModelReport inspect_model(const EngineConfig& config);

}  // namespace quire
