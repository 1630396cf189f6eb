// Sparse outliers that some checkpoints add to single quantized weights (SpQR, SqueezeLLM): a separate sparse
// product, added to the quantized one. Each row's sum runs over its outliers in stored order, with one
// rounding per product and per sum, so the bits are the same on all levels and for all batches.
#pragma once

#include "ops/op_table.h"

namespace quire {

// Copies the outliers of the parts, whose rows are stacked in order. Throws Error if one is not in w's
// columns.
void pack_outliers(std::span<const QuantizedMatrix* const> parts, PackedLinear& w);

// out += x outliers^T. Does nothing if w has no outliers.
void add_outliers(const OpContext& ctx, const TensorView& out, const TensorView& x, const PackedLinear& w);

// weights [k] += the outliers of row `row` of w.
void add_outliers_of_row(const PackedLinear& w, int64_t row, float* weights);

// Whether an activation is excluded from rounding (WeightFormat::outlier_threshold, as in LLM.int8()).
inline bool is_large(float x, float threshold) {
  return threshold > 0.0F && (x >= threshold || x <= -threshold);
}

// out += the products of quantized weights with large activations. The sum runs over those in packed order,
// 64 at a time.
void add_large_activations(const OpContext& ctx, const TensorView& out, const TensorView& x,
                           const PackedLinear& w);

}  // namespace quire
