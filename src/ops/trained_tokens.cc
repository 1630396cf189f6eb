// Shape checks, costs and implementations of trained tokens. All instruction sets use these.
#include "ops/trained_tokens.h"

#include <algorithm>
#include <array>

#include "ops/parallel.h"
#include "ops/shape_check.h"
#include "quant/codec.h"

namespace quire {
namespace {

constexpr int64_t kTokenLanes = 16;

void check_token_groups(const ShapeCheck& shapes, std::span<const TrainedTokensGroup> groups,
                        int64_t first_row, int64_t rows, int64_t size) {
  for (const TrainedTokensGroup& group : groups) {
    shapes.require(group.tokens != nullptr, "a group must have tokens");
    const TrainedTokens& tokens = *group.tokens;
    shapes.require(tokens.size == size, "the tokens must have the size of the embedding, they have ",
                   tokens.size);
    shapes.require(
        tokens.values.size() == tokens.ids.size() * static_cast<size_t>(size) * dtype_size(tokens.dtype) &&
            std::ranges::is_sorted(tokens.ids),
        "the tokens must ascend and fit their buffer");
    shapes.require(ascend_within(group.rows, first_row, first_row + rows), "rows must ascend within out");
  }
}

const std::byte* token_values(const TrainedTokens& tokens, size_t index) {
  return tokens.values.data() + index * static_cast<size_t>(tokens.size) * dtype_size(tokens.dtype);
}

float token_product(const TrainedTokens& tokens, size_t index, const float* x) {
  constexpr int64_t kColumns = 8 * kTokenLanes;
  const std::byte* row = token_values(tokens, index);
  std::array<float, kTokenLanes> sums{};
  std::array<float, kColumns> values{};
  for (int64_t begin = 0; begin < tokens.size; begin += kColumns) {
    const int64_t count = std::min(kColumns, tokens.size - begin);
    decode_f32(tokens.dtype, row + static_cast<size_t>(begin) * dtype_size(tokens.dtype), values.data(),
               count);
    for (int64_t i = 0; i < count; ++i)
      sums[static_cast<size_t>(i % kTokenLanes)] += values[static_cast<size_t>(i)] * x[begin + i];
  }
  float sum = 0.0F;
  for (const float part : sums) sum += part;
  return sum;
}

OpCost cost_of(std::span<const TrainedTokensGroup> groups, int64_t columns, bool products) {
  OpCost cost{.label = "adapters", .columns = columns};
  for (const TrainedTokensGroup& group : groups) {
    const auto rows = static_cast<double>(group.rows.size());
    const auto size = static_cast<double>(group.tokens->size);
    const auto tokens = static_cast<double>(group.tokens->ids.size());
    cost.rows += static_cast<int64_t>(group.rows.size());
    cost.flop += products ? 2.0 * rows * tokens * size : 0.0;
    cost.bytes +=
        rows * size * sizeof(float) + (products ? static_cast<double>(group.tokens->values.size()) : 0.0);
  }
  return cost;
}

}  // namespace

namespace ops {

void check(const ReplaceEmbeddings& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out}});
  shapes.require_f32({&op.out});
  shapes.require(static_cast<int64_t>(op.ids.size()) == op.out.rows(),
                 "out must have a row per id, there are ", op.ids.size(), " ids");
  check_token_groups(shapes, op.groups, op.first_row, op.out.rows(), op.out.row_size());
}

OpCost cost(const ReplaceEmbeddings& op) {
  return cost_of(op.groups, op.out.row_size(), false);
}

void run_reference(const OpContext& /*ctx*/, const ReplaceEmbeddings& op) {
  for (const TrainedTokensGroup& group : op.groups) {
    const TrainedTokens& tokens = *group.tokens;
    for (const int32_t r : group.rows) {
      const int64_t row = r - op.first_row;
      const int32_t id = op.ids[static_cast<size_t>(row)];
      const auto at = std::ranges::lower_bound(tokens.ids, id);
      if (at == tokens.ids.end() || *at != id) continue;
      decode_f32(tokens.dtype, token_values(tokens, static_cast<size_t>(at - tokens.ids.begin())),
                 op.out.row<float>(row), tokens.size);
    }
  }
}

void check(const ReplaceOutputs& op) {
  const ShapeCheck shapes(op.kName, {{"out", &op.out}, {"x", &op.x}});
  shapes.require_f32({&op.out, &op.x});
  shapes.require(op.out.rows() == op.x.rows(), "out and x must have the same rows");
  check_token_groups(shapes, op.groups, op.first_row, op.out.rows(), op.x.row_size());
  for (const TrainedTokensGroup& group : op.groups) {
    const std::vector<int32_t>& ids = group.tokens->ids;
    shapes.require(ids.empty() || (ids.front() >= 0 && ids.back() < op.out.row_size()),
                   "the tokens must be columns of out");
  }
}

OpCost cost(const ReplaceOutputs& op) {
  return cost_of(op.groups, op.out.row_size(), true);
}

void run_reference(const OpContext& ctx, const ReplaceOutputs& op) {
  for (const TrainedTokensGroup& group : op.groups) {
    const TrainedTokens& tokens = *group.tokens;
    const int64_t row_cost = 4 * tokens.size * static_cast<int64_t>(tokens.ids.size());
    parallel_ranges(ctx, static_cast<int64_t>(group.rows.size()), row_grain(row_cost),
                    [&](int64_t begin, int64_t end, int) {
                      for (int64_t i = begin; i < end; ++i) {
                        const int64_t row = group.rows[static_cast<size_t>(i)] - op.first_row;
                        float* out = op.out.row<float>(row);
                        for (size_t t = 0; t < tokens.ids.size(); ++t)
                          out[tokens.ids[t]] = token_product(tokens, t, op.x.row<float>(row));
                      }
                    });
  }
}

}  // namespace ops
}  // namespace quire
