// Additions of low rank to matrix products: what a LoRA adapter changes in one matrix.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ops/op.h"
#include "tensor/tensor.h"

namespace quire {

// The change to one matrix W [n, k]: W + Σ over pieces of scale · B A, where the B of a piece reaches the
// rows [out_begin, out_begin + n) of W. A matrix that stacks several modules (q, k and v) has a piece for
// each, with a rank of its own. Owned by an adapter. Read-only after load.
struct LowRank {
  struct Piece {
    int64_t out_begin = 0;  // first output
    int64_t n = 0;          // outputs
    int64_t rank = 0;
    float scale = 1.0F;
  };

  int64_t k = 0;              // input features
  DType dtype = DType::kF32;  // type of a and b: float32, bfloat16 or float16
  std::vector<Piece> pieces;  // disjoint, in order of outputs
  Buffer a;                   // [ranks(), k]: the A of the pieces, one after another
  Buffer b;                   // the B of the pieces, one after another, ordered by b_index
  Buffer bias;                // float32 [outputs of W], added to every row; or empty

  // Rows of A.
  int64_t ranks() const {
    int64_t sum = 0;
    for (const Piece& piece : pieces) sum += piece.rank;
    return sum;
  }
  // Outputs that A and B change.
  int64_t outputs() const {
    int64_t sum = 0;
    for (const Piece& piece : pieces) sum += piece.n;
    return sum;
  }
  // Elements of A and B.
  int64_t elements() const {
    int64_t sum = ranks() * k;
    for (const Piece& piece : pieces) sum += piece.rank * piece.n;
    return sum;
  }
};

// Whether the pieces are in order within the outputs of a matrix, and the buffers have their sizes.
bool is_complete(const LowRank& change, int64_t outputs);

// Limit of LowRank::ranks().
inline constexpr int64_t kMaxLowRanks = 65536;
// Outputs per panel of a B.
inline constexpr int64_t kLowRankPanel = 64;

// Where element [output, j] of a piece's B [n, rank] is: B is cut into panels of 64 outputs, each stored as
// [rank, 64]. The last one is as wide as what is left.
inline int64_t b_index(const LowRank::Piece& piece, int64_t output, int64_t j) {
  const int64_t begin = output / kLowRankPanel * kLowRankPanel;
  const int64_t width = piece.n - begin < kLowRankPanel ? piece.n - begin : kLowRankPanel;
  return begin * piece.rank + j * width + output - begin;
}

// The rows of a step that one LowRank changes.
struct LowRankGroup {
  const LowRank* change = nullptr;
  std::span<const int32_t> rows;  // ascending
};

namespace ops {

// For the rows r of each group, with i = r - first_row:
//   h[j] = scale_j · Σ_k a[j, k] x[i, k]
//   out[i, n] += Σ_j b[n, j] h[j] (+ bias[n])
// in float32, j in ascending order, out updated once.
struct AddLowRank {
  static constexpr const char* kName = "add_low_rank";
  TensorView out;                        // [rows, outputs]
  TensorView x;                          // [rows, k]
  std::span<const LowRankGroup> groups;  // no row is in two of them
  int64_t first_row = 0;
};
void check(const AddLowRank& op);
OpCost cost(const AddLowRank& op);
void run_reference(const OpContext& ctx, const AddLowRank& op);

using LowRankOps = OpList<AddLowRank>;

}  // namespace ops
}  // namespace quire
