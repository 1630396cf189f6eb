// Shape checks, costs and reference implementations of products with several matrices.
#include <algorithm>
#include <string>

#include "base/strings.h"
#include "ops/linear.h"
#include "ops/shape_check.h"

namespace quire {

const PackedLinear* first_matrix(std::span<const PackedLinear* const> matrices) {
  const auto found = std::ranges::find_if(matrices, [](const PackedLinear* w) { return w != nullptr; });
  return found == matrices.end() ? nullptr : *found;
}

namespace ops {
namespace {

// Whether all matrices have the shape of `w`, the first of them.
bool same_shape(std::span<const PackedLinear* const> matrices, const PackedLinear& w) {
  return std::ranges::all_of(matrices, [&](const PackedLinear* other) {
    return other == nullptr || (other->n == w.n && other->k == w.k && other->gate == w.gate);
  });
}

// The matrices' shape, for messages.
std::string shape_of(std::span<const PackedLinear* const> matrices) {
  const PackedLinear* first = first_matrix(matrices);
  return first == nullptr ? "no matrices"
                          : cat(matrices.size(), " matrices [", first->n, ", ", first->k, "]");
}

// The cost of `rows` rows in all that are multiplied by matrices of `bytes` bytes in all. x: the elements of
// x that are read.
OpCost product_cost(const PackedLinear& w, int64_t rows, double bytes, double x) {
  const auto m = static_cast<double>(rows);
  const double outs = m * static_cast<double>(w.out_columns());
  return {.label = w.label,
          .bytes = bytes + (x + outs) * static_cast<double>(sizeof(float)),
          .flop = 2 * m * static_cast<double>(w.n) * static_cast<double>(w.k),
          .rows = rows,
          .columns = w.n,
          .depth = w.k,
          .weights = &w.format};
}

}  // namespace

void check(const GroupedLinear& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out}, {"x", &op.x}});
  const auto rule = [&](bool ok, std::string_view text) {
    shapes.require(ok, text, shape_of(op.matrices), ", offsets [", op.offsets.size(), "], rows [",
                   op.rows.size(), "]");
  };
  const PackedLinear* first = first_matrix(op.matrices);
  rule(first != nullptr && same_shape(op.matrices, *first), "the matrices must have the same shape and gate");
  shapes.require_f32({&op.out, &op.x});
  const PackedLinear& w = *first;
  rule(op.x.row_size() == w.k, "x must have the matrices' k columns");
  rule(op.out.row_size() == w.out_columns(),
       w.gate ? "out must have half of the matrices' n columns" : "out must have the matrices' n columns");
  rule(op.offsets.size() > op.matrices.size(), "offsets must have one more element than there are matrices");
  for (size_t g = 0; g < op.matrices.size(); ++g)
    rule(op.offsets[g] <= op.offsets[g + 1], "the offsets must ascend");
  const int64_t terms = op.offsets[op.matrices.size()];
  rule(op.offsets[0] == 0 && terms <= op.out.rows(), "out must have a row for each term");
  if (op.rows.empty()) return rule(terms <= op.x.rows(), "x must have a row for each term");
  rule(terms <= static_cast<int64_t>(op.rows.size()), "rows must have an element for each term");
  shapes.require_indices("row", op.rows.first(static_cast<size_t>(terms)), op.x.rows());
}

OpCost cost(const GroupedLinear& op) {
  const PackedLinear& w = *first_matrix(op.matrices);
  int64_t terms = 0;
  double bytes = 0;
  for (size_t g = 0; g < op.matrices.size(); ++g) {
    const int64_t rows = op.offsets[g + 1] - op.offsets[g];
    if (rows == 0 || op.matrices[g] == nullptr) continue;
    terms += rows;
    bytes += static_cast<double>(op.matrices[g]->data.size());
  }
  return product_cost(w, terms, bytes, static_cast<double>(std::min(terms, op.x.rows()) * w.k));
}

void run_reference(const OpContext& ctx, const GroupedLinear& op) {
  for (size_t g = 0; g < op.matrices.size(); ++g) {
    if (op.matrices[g] == nullptr) continue;
    for (int32_t t = op.offsets[g]; t < op.offsets[g + 1]; ++t) {
      const int32_t row = op.rows.empty() ? t : op.rows[static_cast<size_t>(t)];
      run_reference(ctx, Linear{.out = row_slice(op.out, t, t + 1),
                                .x = row_slice(op.x, row, row + 1),
                                .w = *op.matrices[g]});
    }
  }
}

void check(const BatchedLinear& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out}, {"x", &op.x}});
  const auto rule = [&](bool ok, std::string_view text) { shapes.require(ok, text, shape_of(op.matrices)); };
  rule(!op.matrices.empty() && std::ranges::count(op.matrices, nullptr) == 0 &&
           same_shape(op.matrices, *op.matrices[0]) && !op.matrices[0]->gate,
       "the matrices must have the same shape and no gate");
  shapes.require_f32({&op.out, &op.x});
  const auto count = static_cast<int64_t>(op.matrices.size());
  rule(op.x.row_size() == count * op.matrices[0]->k, "x must have k columns for each matrix");
  rule(op.out.row_size() == count * op.matrices[0]->n && op.out.rows() == op.x.rows(),
       "out must have x's rows, and n columns for each matrix");
}

OpCost cost(const BatchedLinear& op) {
  double bytes = 0;
  for (const PackedLinear* w : op.matrices) bytes += static_cast<double>(w->data.size());
  const int64_t rows = op.x.rows() * static_cast<int64_t>(op.matrices.size());
  return product_cost(*op.matrices[0], rows, bytes, static_cast<double>(rows * op.matrices[0]->k));
}

void run_reference(const OpContext& ctx, const BatchedLinear& op) {
  int64_t i = 0;
  for (const PackedLinear* w : op.matrices) {
    run_reference(ctx, Linear{.out = column_slice(op.out, i * w->n, (i + 1) * w->n),
                              .x = column_slice(op.x, i * w->k, (i + 1) * w->k),
                              .w = *w});
    ++i;
  }
}

}  // namespace ops
}  // namespace quire
