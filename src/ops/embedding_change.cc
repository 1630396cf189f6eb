// Shape check, cost and implementation of changes to embeddings. All instruction sets use this one: a row
// costs rank · size multiplications.
#include "ops/embedding_change.h"

#include <algorithm>
#include <array>

#include "ops/parallel.h"
#include "ops/shape_check.h"
#include "quant/codec.h"

namespace quire {
namespace {

// Columns that are summed together.
constexpr int64_t kChangeColumns = 64;

bool is_complete(const EmbeddingChange& change) {
  const auto size = static_cast<int64_t>(dtype_size(change.dtype));
  return change.rank > 0 && static_cast<int64_t>(change.a.size()) == change.vocab_size * change.rank * size &&
         static_cast<int64_t>(change.b.size()) == change.rank * change.size * size;
}

// row += (scale · a[id]) b.
void add_change(const EmbeddingChange& change, int32_t id, float* row) {
  const int64_t bytes = static_cast<int64_t>(dtype_size(change.dtype));
  const std::byte* a = change.a.data() + id * change.rank * bytes;
  std::array<float, kChangeColumns> sums{};
  std::array<float, kChangeColumns> b{};
  for (int64_t begin = 0; begin < change.size; begin += kChangeColumns) {
    const int64_t count = std::min(kChangeColumns, change.size - begin);
    sums.fill(0.0F);
    for (int64_t j = 0; j < change.rank; ++j) {
      const float h = change.scale * load_f32(change.dtype, a, j);
      decode_f32(change.dtype, change.b.data() + (j * change.size + begin) * bytes, b.data(), count);
      for (size_t n = 0; n < kChangeColumns; ++n) sums[n] += h * b[n];
    }
    for (int64_t n = 0; n < count; ++n) row[begin + n] += sums[static_cast<size_t>(n)];
  }
}

}  // namespace

namespace ops {

void check(const AddEmbeddingChanges& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out}});
  shapes.require_f32({&op.out});
  shapes.require(static_cast<int64_t>(op.ids.size()) == op.out.rows(),
                 "out must have a row per id, there are ", op.ids.size(), " ids");
  for (const EmbeddingGroup& group : op.groups) {
    shapes.require(group.change != nullptr, "a group must have a change");
    const EmbeddingChange& change = *group.change;
    shapes.require(change.size == op.out.row_size(), "the change must have out's columns, it has ",
                   change.size);
    shapes.require(is_complete(change), "the change must fit its buffers");
    shapes.require(ascend_within(group.rows, op.first_row, op.first_row + op.out.rows()),
                   "rows must ascend within out");
    for (const int32_t row : group.rows) {
      const int32_t id = op.ids[static_cast<size_t>(row - op.first_row)];
      shapes.require(id >= 0 && id < change.vocab_size, "ids must be within the vocabulary, one is ", id,
                     " of ", change.vocab_size);
    }
  }
}

OpCost cost(const AddEmbeddingChanges& op) {
  OpCost cost{.label = "adapters", .columns = op.out.row_size()};
  for (const EmbeddingGroup& group : op.groups) {
    const auto rows = static_cast<double>(group.rows.size());
    const auto rank = static_cast<double>(group.change->rank);
    const auto size = static_cast<double>(group.change->size);
    cost.rows += static_cast<int64_t>(group.rows.size());
    cost.flop += 2.0 * rows * rank * size;
    cost.bytes +=
        rank * size * static_cast<double>(dtype_size(group.change->dtype)) +
        rows * (2.0 * size * sizeof(float) + rank * static_cast<double>(dtype_size(group.change->dtype)));
  }
  return cost;
}

void run_reference(const OpContext& ctx, const AddEmbeddingChanges& op) {
  for (const EmbeddingGroup& group : op.groups) {
    const int64_t row_cost = 4 * group.change->rank * group.change->size;
    parallel_ranges(ctx, static_cast<int64_t>(group.rows.size()), row_grain(row_cost),
                    [&](int64_t begin, int64_t end, int) {
                      for (int64_t i = begin; i < end; ++i) {
                        const int64_t row = group.rows[static_cast<size_t>(i)] - op.first_row;
                        add_change(*group.change, op.ids[static_cast<size_t>(row)], op.out.row<float>(row));
                      }
                    });
  }
}

}  // namespace ops
}  // namespace quire
