// Shape check, cost and reference implementation of additions of low rank.
#include "ops/low_rank.h"

#include <algorithm>
#include <vector>

#include "ops/shape_check.h"
#include "quant/codec.h"

namespace quire {
namespace {

// The values of a buffer as float32.
std::vector<float> decoded(const Buffer& buffer, DType dtype) {
  std::vector<float> values(buffer.size() / dtype_size(dtype));
  decode_f32(dtype, buffer.data(), values.data(), static_cast<int64_t>(values.size()));
  return values;
}

}  // namespace

bool is_complete(const LowRank& change, int64_t outputs) {
  int64_t end = 0;
  int64_t ranks = 0;
  int64_t elements = 0;
  for (const LowRank::Piece& piece : change.pieces) {
    if (piece.out_begin < end || piece.n <= 0 || piece.rank <= 0) return false;
    end = piece.out_begin + piece.n;
    ranks += piece.rank;
    elements += piece.rank * piece.n;
  }
  const auto size = static_cast<int64_t>(dtype_size(change.dtype));
  const auto bias = static_cast<int64_t>(change.bias.size());
  return end <= outputs && ranks <= kMaxLowRanks &&
         static_cast<int64_t>(change.a.size()) == ranks * change.k * size &&
         static_cast<int64_t>(change.b.size()) == elements * size &&
         (bias == 0 || bias == outputs * static_cast<int64_t>(sizeof(float)));
}

namespace ops {

void check(const AddLowRank& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out}, {"x", &op.x}});
  shapes.require_f32({&op.out, &op.x});
  shapes.require(op.out.rows() == op.x.rows(), "out and x must have the same rows");
  for (const LowRankGroup& group : op.groups) {
    shapes.require(group.change != nullptr, "a group must have a change");
    shapes.require(group.change->k == op.x.row_size(), "the change must have x's columns, it has ",
                   group.change->k);
    shapes.require(is_complete(*group.change, op.out.row_size()), "the pieces must fit out and the buffers");
    shapes.require(ascend_within(group.rows, op.first_row, op.first_row + op.x.rows()),
                   "rows must ascend within x");
  }
}

OpCost cost(const AddLowRank& op) {
  OpCost cost{.label = "adapters", .columns = op.out.row_size(), .depth = op.x.row_size()};
  for (const LowRankGroup& group : op.groups) {
    const auto rows = static_cast<int64_t>(group.rows.size());
    cost.rows += rows;
    cost.flop += 2.0 * static_cast<double>(rows * group.change->elements());
    cost.bytes += static_cast<double>(group.change->a.size() + group.change->b.size()) +
                  static_cast<double>(rows * (op.x.row_size() + 2 * group.change->outputs())) * sizeof(float);
  }
  return cost;
}

void run_reference(const OpContext& /*ctx*/, const AddLowRank& op) {
  for (const LowRankGroup& group : op.groups) {
    const LowRank& change = *group.change;
    const std::vector<float> a = decoded(change.a, change.dtype);
    const std::vector<float> b = decoded(change.b, change.dtype);
    for (const int32_t r : group.rows) {
      const float* x = op.x.row<float>(r - op.first_row);
      float* out = op.out.row<float>(r - op.first_row);
      const float* a_row = a.data();
      const float* b_piece = b.data();
      for (const LowRank::Piece& piece : change.pieces) {
        std::vector<float> h(static_cast<size_t>(piece.rank));
        for (float& value : h) {
          float sum = 0.0F;
          for (int64_t k = 0; k < change.k; ++k) sum += a_row[k] * x[k];
          value = piece.scale * sum;
          a_row += change.k;
        }
        for (int64_t n = 0; n < piece.n; ++n) {
          float sum = 0.0F;
          for (int64_t j = 0; j < piece.rank; ++j)
            sum += b_piece[b_index(piece, n, j)] * h[static_cast<size_t>(j)];
          out[piece.out_begin + n] += sum;
        }
        b_piece += piece.rank * piece.n;
      }
      const float* bias = change.bias.size() == 0 ? nullptr : change.bias.as<float>();
      for (int64_t n = 0; bias != nullptr && n < op.out.row_size(); ++n) out[n] += bias[n];
    }
  }
}

}  // namespace ops
}  // namespace quire
