#include "ops/shape_check.h"

#include <algorithm>

#include "base/error.h"

namespace quire {

ShapeCheck::ShapeCheck(const char* op, std::initializer_list<Operand> operands) : op_(op) {
  for (const Operand& operand : operands) operands_.at(num_operands_++) = operand;
}

void ShapeCheck::fail(std::string_view rule, const std::string& extra) const {
  std::string text = cat(op_, ": ", rule, "; got ");
  for (size_t i = 0; i < num_operands_; ++i) {
    const TensorView& view = *operands_.at(i).view;
    text += cat(i == 0 ? "" : ", ", operands_.at(i).name, " ");
    if (view.data == nullptr) {
      text += "none";
    } else {
      text += cat(view.shape.to_string(), " ", dtype_name(view.dtype));
    }
  }
  if (!extra.empty()) text += cat(num_operands_ == 0 ? "" : ", ", extra);
  throw Error(text);
}

void ShapeCheck::require_f32(std::initializer_list<const TensorView*> required) const {
  require_f32(required, {});
}

void ShapeCheck::require_f32(std::initializer_list<const TensorView*> required,
                             std::initializer_list<const TensorView*> shared) const {
  for (size_t i = 0; i < num_operands_; ++i) {
    const TensorView& view = *operands_.at(i).view;
    const char* name = operands_.at(i).name;
    if (view.data == nullptr) {
      require(std::ranges::find(required, &view) == required.end(), "an operand is missing", name);
      continue;
    }
    require(view.dtype == DType::kF32, "operands must be float32");
    const bool repeated = view.row_stride == 0 && std::ranges::find(shared, &view) != shared.end();
    require(view.rows() <= 1 || repeated || view.row_stride >= view.row_size(), "rows must not overlap", name,
            " has a row stride of ", view.row_stride);
  }
}

void ShapeCheck::require_indices(std::string_view name, std::span<const int32_t> indices,
                                 int64_t count) const {
  for (const int32_t index : indices)
    require(index >= 0 && index < count, "an index is out of range", name, " ", index, " of ", count);
}

}  // namespace quire
