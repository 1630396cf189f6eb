// What some checkpoints add to single weights of a matrix of codes: a product of its own, added to what the
// codes give. Its sums run over a row's outliers as they lie, a product and a sum rounded each, so that they
// are the same bits on every level and in any batch.
#pragma once

#include "ops/op_table.h"

namespace quire {

// Takes over those of the parts, the rows one below the other. Throws Error where one is none of w's columns.
void pack_outliers(std::span<const CodedMatrix* const> parts, PackedLinear& w);

// out += x outliers^T; nothing where w has none.
void add_outliers(const OpContext& ctx, const TensorView& out, const TensorView& x, const PackedLinear& w);

// weights [k] += those of row `row` of w.
void add_outliers_of_row(const PackedLinear& w, int64_t row, float* weights);

// Whether an activation is one that WeightFormat::outlier_threshold leaves as it is.
inline bool is_large(float x, float threshold) {
  return threshold > 0.0F && (x >= threshold || x <= -threshold);
}

// out += the products of weights of codes with those of x that are large. Sums run over them in packed order,
// 64 at a time.
void add_large_activations(const OpContext& ctx, const TensorView& out, const TensorView& x,
                           const PackedLinear& w);

}  // namespace quire
