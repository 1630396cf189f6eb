// GPTQ: columns of a matrix are rounded one after the other, and what each has lost is made good by those
// that are not rounded yet, as far as the inputs that the matrix meets allow it (Frantar et al., "GPTQ:
// accurate post-training quantization for generative pre-trained transformers", arXiv 2210.17323, algorithm
// 1). Free functions; the pool's threads work on rows of their own, so that results do not depend on their
// number.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "quant/int_rounding.h"

namespace quire {

// The upper triangular U with U^T U = (H + damp * mean(diagonal) * 1)^-1; [k, k] row by row, zeros below. H
// is the sum of x x^T over the inputs x, its row and column i being order[i] of h [k, k]; inputs that never
// were anything but 0 stand for themselves. In float64. Throws Error where H is not finite.
std::vector<float> inverse_factor(ThreadPool& pool, std::span<const float> h, std::span<const int32_t> order,
                                  double damp);

struct GptqOptions {
  double damp = 0.01;     // part of the mean of H's diagonal that is added to it
  bool act_order = true;  // inputs that are largest first; groups stay columns side by side
};

// What all matrices that meet the same inputs need of them: H takes longer to factorize than most of them to
// round.
struct GptqInputs {
  int64_t k = 0;
  bool act_order = false;
  std::vector<int32_t> order;     // column i of u is column order[i] of the matrices
  std::vector<float> importance;  // [k] of the matrices' columns: H's diagonal
  std::vector<float> u;           // [k, k] inverse_factor of H in that order
};

// h [k, k].
GptqInputs prepare_gptq(ThreadPool& pool, std::span<const float> h, int64_t k, const GptqOptions& options);

// What the weights of a matrix can become, and have become. Threads work on rows of their own.
class RoundingGrid {
 public:
  virtual ~RoundingGrid() = default;
  // A row is next. w [k]: its weights as they are.
  virtual void begin_row(int64_t row, std::span<const float> w) = 0;
  // What the weight at the column becomes. rest: the weight, with what others have lost, and behind it those
  // of the row that come after it.
  virtual float round(int64_t row, int64_t column, std::span<const float> rest) = 0;
};

// w [n, k].
void round_gptq(ThreadPool& pool, std::span<const float> w, int64_t n, const GptqInputs& inputs,
                RoundingGrid& grid);
// The same, but nothing is made good: each weight becomes what is nearest to it. w [n, k].
void round_each(ThreadPool& pool, std::span<const float> w, int64_t n, int64_t k, RoundingGrid& grid);
IntMatrix round_gptq(ThreadPool& pool, const IntRounding& rounding, std::span<const float> w, int64_t n,
                     int64_t group_size, const GptqInputs& inputs);

}  // namespace quire
