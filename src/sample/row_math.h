// Vectorized loops over one row of logits, with 16 float lanes. Sums use float lanes within blocks of
// kRowBlock entries and doubles across blocks. The order of summation depends on the row's length only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace quire {

inline constexpr size_t kRowBlock = 256;

constexpr size_t num_blocks(size_t n) {
  return (n + kRowBlock - 1) / kRowBlock;
}

struct RowMax {
  float max = 0.0F;         // -inf for an empty row
  bool is_numbers = false;  // no entry is NaN or +inf
};

// block_max [num_blocks(values.size())]: the maximum of each block.
RowMax block_maxima(std::span<const float> values, float* block_max);

// Returns the sum of exp((v - max) * scale) over the row with a relative error below 1e-6; exponents below
// -87.3 give 0. max: finite, not less than any entry; scale > 0. block_sum [num_blocks(values.size())]: sums
// per block.
double sum_exp(std::span<const float> values, float max, float scale, double* block_sum);
// Same, and stores the terms in weights [values.size()].
double weigh(std::span<const float> values, float max, float scale, float* weights, double* block_sum);

// With the weights w = exp(x), x = (v - max) * scale, of a row.
struct RowWeights {
  double sum = 0.0;      // sum of w
  double mean = 0.0;     // mean of x, each counted w times
  double entropy = 0.0;  // entropy of the probabilities w / sum, in nats
};
RowWeights describe_weights(std::span<const float> values, float max, float scale);

// Standard deviation of the entries that are not -inf; infinite if they are too far apart. max: not less than
// any entry.
double deviation(std::span<const float> values, float max);

// Returns the number of entries with (v - max) * scale >= bound.
size_t count_from(std::span<const float> values, float max, float scale, float bound);

// Returns the first index with values[index] == max. block_max: from block_maxima().
size_t find_max(std::span<const float> values, const float* block_max, float max);

// Returns the number of entries above `value`, or equal to it at an index below `index`.
size_t count_before(std::span<const float> values, float value, size_t index);

// Copies the entries with (v - max) * scale >= bound and their ids to out_values and out_ids, in order, and
// returns their number. ids: null = the index is the id. The outputs may alias the inputs.
size_t gather_from(std::span<const float> values, const int32_t* ids, const float* block_max, float max,
                   float scale, float bound, float* out_values, int32_t* out_ids);

}  // namespace quire
