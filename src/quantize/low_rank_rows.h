// Adds the change of an adapter to rows of a matrix, in float32.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/low_rank.h"

namespace quire {

// The change B A of one matrix, with the A of its pieces as float32. `change` outlives it. Immutable, so that
// any number of threads may read it.
class LowRankRows {
 public:
  explicit LowRankRows(const LowRank& change);

  // Columns of the matrix.
  int64_t columns() const { return change_.k; }
  // Whether it changes one of the rows [begin, end).
  bool changes(int64_t begin, int64_t end) const;
  // w[k] += scale · Σ_j b[row, j] a[j, k]. sum: memory for as many values as a row has.
  void add_to(int64_t row, std::span<float> w, std::span<float> sum) const;
  // LowRank::bias of the row.
  float bias(int64_t row) const;

 private:
  struct Piece {
    LowRank::Piece piece;
    int64_t a_begin = 0;  // its first row of A
    int64_t b_begin = 0;  // its first element of B
  };

  const LowRank& change_;
  std::vector<Piece> pieces_;
  std::vector<float> a_;  // [ranks, k]
};

}  // namespace quire
