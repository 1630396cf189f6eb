// What a request for a vector or for scores asks: of embeddings, of a classifier, of a reranker.
#pragma once

#include <cstdint>
#include <optional>

namespace quire {

struct PoolingParams {
  int32_t dimensions = 0;         // embeddings: the first so many numbers; 0: all
  std::optional<bool> normalize;  // embeddings: to length 1; none: as the model's files say
  bool activation = true;         // scores: as probabilities (or what the model says), else as they are
};

}  // namespace quire
