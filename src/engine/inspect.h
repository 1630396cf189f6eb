// What a model is and what it will cost, without reading its weights.
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
  int64_t bytes = 0;  // scales and zeros too

  // Of a weight.
  double bits() const {
    return parameters == 0 ? 0.0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(parameters);
  }
};

struct ModelReport {
  std::string name;
  std::string architecture;
  std::string task;                   // "generate", "embed" or "classify"
  int64_t num_parameters = 0;         // of the file; a tied embedding counts once
  int64_t weight_bytes = 0;           // of the file
  std::vector<FormatReport> formats;  // of the file, by name
  std::string quantization;           // as asked for; empty: none
  int64_t weight_memory = 0;          // bytes that the weights take in memory
  int32_t num_layers = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int32_t num_heads = 0;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int64_t vocab_size = 0;
  int64_t max_model_len = 0;
  bool tied_embeddings = false;
  std::string kv_cache_dtype;
  int64_t kv_bytes_per_token = 0;
  KvLayout kv_layout;          // but for how many blocks there are
  int64_t kv_memory = 0;       // bytes assumed for the KV pool
  int64_t state_bytes = 0;     // that a sequence carries whatever its length
  int64_t kv_tokens = 0;       // how many tokens fit
  int64_t full_sequences = 0;  // how many sequences of max_model_len fit
  std::vector<TensorReport> tensors;
};

// Throws Error. kv_cache_memory 0: what `quire serve` would take now.
ModelReport inspect_model(const EngineConfig& config);

}  // namespace quire
