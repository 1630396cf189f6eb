// Helpers for the shape checks of ops. Nothing is allocated unless a check fails.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "tensor/tensor.h"

namespace quire {

// Whether rows ascend within [first, end).
inline bool ascend_within(std::span<const int32_t> rows, int64_t first, int64_t end) {
  return std::ranges::is_sorted(rows) && (rows.empty() || (rows.front() >= first && rows.back() < end));
}

// The operands of one call of an op. Errors name the op, the violated rule and the shapes of all operands.
class ShapeCheck {
 public:
  struct Operand {
    const char* name;
    const TensorView* view;  // null data = the operand was not given
  };
  // At most kMaxOperands operands, which outlive the check.
  ShapeCheck(const char* op, std::initializer_list<Operand> operands);

  // Throws Error unless ok. extra: parts of a text about arguments that are not tensors.
  template <class... Extra>
  void require(bool ok, std::string_view rule, const Extra&... extra) const {
    if (!ok) fail(rule, cat(extra...));
  }
  // Every operand is float32, and its rows do not overlap. Operands that were not given are skipped, unless
  // they are `required`.
  void require_f32(std::initializer_list<const TensorView*> required) const;
  // The same, except that all rows of the views `shared` may be the same memory (row_stride 0).
  void require_f32(std::initializer_list<const TensorView*> required,
                   std::initializer_list<const TensorView*> shared) const;
  // Every index is in [0, count).
  void require_indices(std::string_view name, std::span<const int32_t> indices, int64_t count) const;

 private:
  static constexpr size_t kMaxOperands = 8;
  [[noreturn]] void fail(std::string_view rule, const std::string& extra) const;

  const char* op_;
  std::array<Operand, kMaxOperands> operands_;
  size_t num_operands_ = 0;
};

}  // namespace quire
