// Pooling of hidden states: what differs between models. Plain data.
#pragma once

#include <cstdint>

namespace quire {

// Which rows of the hidden states make the pooled vector, and how.
enum class PoolKind : uint8_t {
  kFirst,
  kLast,
  kMean,
  kMax,           // maximum of each dimension
  kMeanSqrt,      // the sum divided by the square root of the number of rows
  kWeightedMean,  // row i has the weight i + 1
};

// Applied to the scores of a classification head before they are returned.
enum class ScoreActivation : uint8_t { kIdentity, kSigmoid, kSoftmax };

}  // namespace quire
