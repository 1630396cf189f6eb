// Parameters of a pooling request: embeddings, classification or reranking.
#pragma once

#include <cstdint>
#include <optional>

namespace quire {

struct PoolingParams {
  int32_t dimensions = 0;         // embeddings: number of leading dimensions to return; 0 = all
  std::optional<bool> normalize;  // embeddings: scale to unit length; nullopt = use the model's setting
  bool activation = true;         // scores: apply the model's activation (softmax or sigmoid)
};

}  // namespace quire
