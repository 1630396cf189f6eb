// GPTQ: columns of a matrix are rounded one after another, and the error of each is compensated by the
// columns that are not rounded yet (Frantar et al., "GPTQ: accurate post-training quantization for generative
// pre-trained transformers", arXiv 2210.17323, algorithm 1). Free functions. Threads of the pool work on
// separate rows, so results do not depend on their number.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "quant/int_rounding.h"

namespace quire {

// The upper triangular U with U^T U = (H + damp * mean(diagonal) * I)^-1; [k, k] row-major, zeros below the
// diagonal. H is the sum of x x^T over the inputs x, where row and column i are order[i] of h [k, k]. Inputs
// that are always 0 get the mean of the diagonal. Computed in float64. Throws Error if H is not finite.
std::vector<float> inverse_factor(ThreadPool& pool, std::span<const float> h, std::span<const int32_t> order,
                                  double damp);

struct GptqOptions {
  double damp = 0.01;     // added to H's diagonal, as a fraction of its mean
  bool act_order = true;  // process columns with the largest inputs first; groups remain consecutive columns
};

// Shared by all matrices with the same inputs: factorizing H takes longer than rounding most matrices.
struct GptqInputs {
  int64_t k = 0;
  bool act_order = false;
  std::vector<int32_t> order;     // column i of u is column order[i] of the matrices
  std::vector<float> importance;  // [k] H's diagonal, in the order of the matrices' columns
  std::vector<float> u;           // [k, k] inverse_factor of H in that order
};

// h [k, k].
GptqInputs prepare_gptq(ThreadPool& pool, std::span<const float> h, int64_t k, const GptqOptions& options);

// The values that the weights of a matrix can be rounded to, and the rounded weights. Threads work on
// separate rows.
class RoundingGrid {
 public:
  virtual ~RoundingGrid() = default;
  // Starts a row with the original weights w [k].
  virtual void begin_row(int64_t row, std::span<const float> w) = 0;
  // Rounds the weight at `column` and returns its new value. rest: the updated weights of the row, from this
  // column on.
  virtual float round(int64_t row, int64_t column, std::span<const float> rest) = 0;
};

// w [n, k].
void round_gptq(ThreadPool& pool, std::span<const float> w, int64_t n, const GptqInputs& inputs,
                RoundingGrid& grid);
// Same, without compensation: each weight is rounded to nearest. w [n, k].
void round_each(ThreadPool& pool, std::span<const float> w, int64_t n, int64_t k, RoundingGrid& grid);
IntMatrix round_gptq(ThreadPool& pool, const IntRounding& rounding, std::span<const float> w, int64_t n,
                     int64_t group_size, const GptqInputs& inputs);

}  // namespace quire
