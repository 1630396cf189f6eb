// Shared by the packing functions of all op tables: checks of the parts, sizes, empty packed matrices.
#pragma once

#include <cstdint>
#include <span>

#include "ops/op_table.h"

namespace quire {

// A packed matrix for the stacked rows of `parts`: n, k, format, and zeroed data of packed_bytes() bytes.
// Throws Error if the parts do not fit together or the format is not a weight format.
PackedLinear make_packed(std::span<const TensorView> parts, WeightFormat format,
                         int64_t (*packed_bytes)(const WeightFormat& format, int64_t n, int64_t k));
// The same for quantized matrices, in the layout of quant/quant_layout.h and with their column order and
// outliers.
PackedLinear make_packed_quantized(std::span<const QuantizedMatrix* const> parts);

}  // namespace quire
