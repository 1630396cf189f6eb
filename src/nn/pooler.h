// From the hidden states of a text to one vector: an embedding, or a score for each label.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/layers.h"

namespace quire {

// Which rows of hidden states make the vector, and how.
enum class PoolKind : uint8_t {
  kFirst,
  kLast,
  kMean,
  kMax,           // of each dimension
  kMeanSqrt,      // the sum divided by the square root of the number of rows
  kWeightedMean,  // row i counts i + 1 times
};

// What a score goes through before anybody sees it.
enum class ScoreActivation : uint8_t { kIdentity, kSigmoid, kSoftmax };

// norm(act(W x)), of which each part may be missing.
struct PoolerLayer {
  std::optional<Linear> linear;
  std::optional<Activation> activation;
  bool tanh = false;  // in its place
  std::optional<Norm> norm;
};

struct Pooler {
  std::vector<PoolKind> kinds;  // their vectors stand one behind the other
  std::vector<PoolerLayer> layers;
  int64_t hidden_size = 0;  // of a row of hidden states
  bool scores = false;      // else an embedding
  ScoreActivation activation = ScoreActivation::kIdentity;
  bool normalize = false;  // an embedding to length 1

  int64_t pooled_size() const { return static_cast<int64_t>(kinds.size()) * hidden_size; }
  int64_t output_size() const;
  // Columns that scratch must have.
  int64_t widest() const;
  // Whether more than the last row counts.
  bool all_rows() const { return kinds.size() != 1 || kinds.front() != PoolKind::kLast; }
};

// The layers over x [rows, pooled_size()], which is overwritten. Returns [rows, output_size()], which lies in
// x or in scratch; both are views of [rows, widest()] or wider.
TensorView apply(const OpTable& ops, const OpContext& ctx, const Pooler& pooler, const TensorView& x,
                 const TensorView& scratch);

}  // namespace quire
