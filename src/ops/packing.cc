#include "ops/packing.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "base/error.h"
#include "base/strings.h"
#include "ops/outliers.h"
#include "quant/codec.h"
#include "quant/quant_layout.h"

namespace quire {
namespace {

void require(bool ok, const char* op, const char* rule, const std::string& got) {
  if (!ok) throw Error(cat(op, ": ", rule, "; got ", got));
}

std::string describe(const char* name, const TensorView& t) {
  return cat(name, " ", t.shape.to_string(), " ", dtype_name(t.dtype));
}

}  // namespace

PackedLinear make_packed(std::span<const TensorView> parts, WeightFormat format,
                         int64_t (*packed_bytes)(const WeightFormat& format, int64_t n, int64_t k)) {
  require(!parts.empty(), "pack_linear", "at least one matrix is required", "none");
  check_weight_format(format);
  PackedLinear packed;
  packed.format = format;
  packed.k = parts[0].row_size();
  for (const TensorView& part : parts) {
    require(part.shape.rank() == 2 && part.rows() > 0 && part.row_size() == packed.k && packed.k > 0,
            "pack_linear", "the parts must be matrices with the same number of columns",
            describe("first", parts[0]) + ", " + describe("part", part));
    require(part.data != nullptr && is_storage_dtype(part.dtype), "pack_linear",
            "weights must be float32, bfloat16 or float16", describe("part", part));
    packed.n += part.rows();
  }
  // Floats, and integers with their scales, take less than eight bytes each, except in short rows.
  require(packed.n <= std::numeric_limits<int64_t>::max() / 16 / (packed.k + 64), "pack_linear",
          "the matrix is too large", std::to_string(packed.n) + " x " + std::to_string(packed.k));
  packed.data = Buffer(static_cast<size_t>(packed_bytes(format, packed.n, packed.k)));
  return packed;
}

PackedLinear make_packed_quantized(std::span<const QuantizedMatrix* const> parts) {
  require(!parts.empty(), "pack_quantized", "at least one matrix is required", "none");
  const QuantizedMatrix& first = *parts[0];
  check_quant_format(first.format());
  PackedLinear packed;
  packed.format = {.dtype = DType::kU8, .quantized = first.format()};
  packed.k = first.cols();
  const auto order = first.column_order();
  for (const QuantizedMatrix* part : parts) {
    const auto own = part->column_order();
    require(part->rows() > 0 && packed.k > 0 && part->cols() == packed.k &&
                part->format() == first.format() && std::ranges::equal(own, order),
            "pack_quantized", "the parts must have the same format, number of columns and column order",
            "[" + std::to_string(first.rows()) + ", " + std::to_string(packed.k) + "] and [" +
                std::to_string(part->rows()) + ", " + std::to_string(part->cols()) + "]");
    packed.n += part->rows();
  }
  // A quantized value takes at most a byte, and a group of eight less than twelve bytes more.
  require(packed.n <= std::numeric_limits<int64_t>::max() / 8 / (packed.k + 64), "pack_quantized",
          "the matrix is too large", std::to_string(packed.n) + " x " + std::to_string(packed.k));
  if (!order.empty()) {
    require(static_cast<int64_t>(order.size()) == packed.k, "pack_quantized",
            "the column order must have one index per column",
            std::to_string(order.size()) + " of " + std::to_string(packed.k));
    const auto in_range = [&](int32_t column) { return column >= 0 && column < packed.k; };
    require(std::ranges::all_of(order, in_range), "pack_quantized",
            "the column order has an index out of range", cat(packed.k, " columns"));
    packed.column_order = Buffer(order.size_bytes());
    std::memcpy(packed.column_order.data(), order.data(), order.size_bytes());
  }
  pack_outliers(parts, packed);
  const QuantLayout at(first.format(), packed.k);
  packed.data = Buffer(static_cast<size_t>(at.num_panels(packed.n) * at.panel_bytes));
  return packed;
}

}  // namespace quire
