// Pooling: one vector from the hidden states of a text, an embedding or one score per label.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "nn/layers.h"
#include "nn/pooler_spec.h"

namespace quire {

// norm(act(W x)). Each part is optional.
struct PoolerLayer {
  std::optional<Linear> linear;
  std::optional<Activation> activation;
  bool tanh = false;  // tanh is the activation
  std::optional<Norm> norm;
};

struct Pooler {
  std::vector<PoolKind> kinds;  // their vectors are concatenated
  std::vector<PoolerLayer> layers;
  int64_t hidden_size = 0;  // columns of the hidden states
  bool scores = false;      // the output has scores; otherwise it is an embedding
  ScoreActivation activation = ScoreActivation::kIdentity;
  bool normalize = false;  // embeddings are scaled to length 1

  int64_t pooled_size() const { return static_cast<int64_t>(kinds.size()) * hidden_size; }
  int64_t output_size() const;
  // Minimum number of columns of the scratch.
  int64_t widest() const;
  // Whether the result depends on more than the last row.
  bool all_rows() const { return kinds.size() != 1 || kinds.front() != PoolKind::kLast; }
};

// Applies the layers to x [rows, pooled_size()], which is overwritten. Returns [rows, output_size()], a view
// of x or of scratch; both must have at least widest() columns.
TensorView apply(const OpRunner& run, const Pooler& pooler, const TensorView& x, const TensorView& scratch);

}  // namespace quire
