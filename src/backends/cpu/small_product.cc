#include "backends/cpu/small_product.h"

#include <span>

namespace quire::cpu {

bool is_small(const SmallProduct& product) {
  const PackedLinear& w = product.w;
  return product.m() <= kMaxSmallRows && w.column_order.size() == 0 && w.outliers.size() == 0 &&
         w.format.outlier_threshold == 0.0F;
}

const SmallForm& form_of(const SmallProduct& product) {
  if (is_integer(product.w.format)) return kSmallInt;
  return is_quantized(product.w.format) ? kSmallQuantized : kSmallFloat;
}

int64_t gathered_bytes(const SmallProduct& product) {
  if (product.rows == nullptr || product.m() <= 1) return 0;
  return (product.m() * product.w.k * static_cast<int64_t>(sizeof(float)) + 63) / 64 * 64;
}

TensorView gathered(const SmallProduct& product, std::byte* memory) {
  if (gathered_bytes(product) > 0) return make_view(memory, DType::kF32, Shape{product.m(), product.w.k});
  const int64_t first = product.row(0);
  return row_slice(product.x, first, first + product.m());
}

TensorView gather(const SmallProduct& product, std::byte* memory) {
  const TensorView view = gathered(product, memory);
  if (view.data != memory) return view;
  const std::span<const int32_t> rows(product.rows, static_cast<size_t>(product.m()));
  ops::run_reference({}, ops::GatherRows{.out = view, .x = product.x, .rows = rows});
  return view;
}

}  // namespace quire::cpu
