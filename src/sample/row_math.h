// Passes over one row of logits, in vectors of sixteen floats made of the registers there are. Sums run over
// blocks of kRowBlock entries: sixteen float lanes within a block, doubles across blocks. The order depends
// on the row's length alone.
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

// block_max [num_blocks(values.size())]: the largest of each block.
RowMax block_maxima(std::span<const float> values, float* block_max);

// The sum of exp((v - max) * scale) over the row, relative error below 1e-6; exponents below -87.3 count as
// exactly 0. max: at least every entry, finite; scale > 0. block_sum [num_blocks(values.size())]: the sum of
// each block.
double sum_exp(std::span<const float> values, float max, float scale, double* block_sum);
// The same, and weights [values.size()] get the terms.
double weigh(std::span<const float> values, float max, float scale, float* weights, double* block_sum);

// The first index with values[index] == max; block_max as block_maxima made it.
size_t find_max(std::span<const float> values, const float* block_max, float max);

// How many entries are above `value`, or equal to it at an index below `index`.
size_t count_before(std::span<const float> values, float value, size_t index);

// Writes each entry with (v - max) * scale >= bound, and its id, to out_values and out_ids, in order; returns
// how many. ids null: the index is the id. The outputs may be the inputs.
size_t gather_from(std::span<const float> values, const int32_t* ids, const float* block_max, float max,
                   float scale, float bound, float* out_values, int32_t* out_ids);

}  // namespace quire
