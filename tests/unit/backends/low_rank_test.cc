// Additions of low rank: every level computes the reference's values, and a row has the same bits whatever
// else is in the call.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "base/error.h"
#include "op_testing.h"
#include "ops/reference.h"

namespace quire {
namespace {

using test::fast_isas;
using test::random_buffer;
using test::random_tensor;
using test::same_rows;
using test::TestContext;
using test::TestTensor;

constexpr int64_t kColumnsOfA = 147;  // four registers of 32, one and a part
constexpr int64_t kOutputs = 500;

LowRank make_change(DType dtype, std::vector<LowRank::Piece> pieces, uint32_t seed, bool bias = false) {
  LowRank change{.k = kColumnsOfA, .dtype = dtype, .pieces = std::move(pieces)};
  change.a = random_buffer(dtype, change.ranks() * kColumnsOfA, seed);
  change.b = random_buffer(dtype, change.elements() - change.ranks() * change.k, seed + 1);
  if (bias) change.bias = random_buffer(DType::kF32, kOutputs, seed + 2);
  return change;
}

// Ranks and widths that fill registers and panels, or do not.
std::vector<LowRank> all_changes() {
  std::vector<LowRank> all;
  uint32_t seed = 10;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    all.push_back(make_change(dtype, {{.out_begin = 0, .n = kOutputs, .rank = 16, .scale = 2.0F}}, ++seed));
    all.push_back(make_change(dtype, {{.out_begin = 7, .n = 1, .rank = 1, .scale = 0.5F}}, ++seed, true));
    all.push_back(make_change(dtype,
                              {{.out_begin = 0, .n = 256, .rank = 5, .scale = 1.0F},
                               {.out_begin = 256, .n = 64, .rank = 64, .scale = 0.25F},
                               {.out_begin = 330, .n = 170, .rank = 17, .scale = -3.0F}},
                              ++seed));
  }
  all.push_back(make_change(DType::kF32, {}, ++seed, true));  // only a bias
  return all;
}

// Rows of the groups: one, none, some blocks, and the rest of them in turn.
std::vector<std::vector<int32_t>> rows_of_groups(size_t groups, int32_t first_row) {
  std::vector<std::vector<int32_t>> rows(groups);
  int32_t row = first_row;
  rows[0] = {row++};
  for (int i = 0; i < 37; ++i) rows[2].push_back(row++);
  ++row;  // a row without an adapter
  for (int i = 0; i < 40; ++i) rows[3 + static_cast<size_t>(i) % (groups - 3)].push_back(row++);
  return rows;
}

std::vector<LowRankGroup> groups_of(const std::vector<LowRank>& changes,
                                    const std::vector<std::vector<int32_t>>& rows) {
  std::vector<LowRankGroup> groups;
  for (size_t g = 0; g < changes.size(); ++g) groups.push_back({&changes[g], rows[g]});
  return groups;
}

constexpr int64_t kAllRows = 80;
constexpr int32_t kFirstRow = 100;

TestTensor result_of(const OpTable& table, const OpContext& ctx, std::span<const LowRankGroup> groups) {
  const TestTensor x = random_tensor(DType::kF32, {kAllRows, kColumnsOfA}, 3, 5);
  TestTensor out = random_tensor(DType::kF32, {kAllRows, kOutputs}, 4, 3);
  checked(table).run(ctx, ops::AddLowRank{.out = out, .x = x, .groups = groups, .first_row = kFirstRow});
  return out;
}

TEST(AddLowRank, EveryLevelComputesTheReferenceWithinRounding) {
  const std::vector<LowRank> changes = all_changes();
  const auto rows = rows_of_groups(changes.size(), kFirstRow);
  const auto groups = groups_of(changes, rows);
  const TestTensor want = result_of(reference_ops(), {}, groups);
  for (const CpuIsa& isa : fast_isas()) {
    SCOPED_TRACE(isa.name);
    const TestContext ctx(*isa.table, 2);
    const TestTensor got = result_of(*isa.table, ctx, groups);
    for (int64_t r = 0; r < kAllRows; ++r) {
      for (int64_t i = 0; i < kOutputs; ++i)
        ASSERT_NEAR(got.get(r, i), want.get(r, i), 2e-3) << "row " << r << ", output " << i;
    }
  }
}

TEST(AddLowRank, ARowHasTheSameBitsAloneAndOnAnyNumberOfThreads) {
  const std::vector<LowRank> changes = all_changes();
  const auto rows = rows_of_groups(changes.size(), kFirstRow);
  const auto groups = groups_of(changes, rows);
  for (const CpuIsa& isa : fast_isas()) {
    SCOPED_TRACE(isa.name);
    const TestContext one(*isa.table);
    const TestContext three(*isa.table, 3);
    const TestTensor together = result_of(*isa.table, three, groups);
    EXPECT_TRUE(same_rows(result_of(*isa.table, one, groups), together));
    const TestTensor base = random_tensor(DType::kF32, {kAllRows, kOutputs}, 4, 3);
    for (size_t g = 0; g < groups.size(); ++g) {
      for (const int32_t row : rows[g]) {
        const std::vector<int32_t> alone = {row};
        const std::array<LowRankGroup, 1> group = {{{&changes[g], alone}}};
        const TestTensor got = result_of(*isa.table, one, group);
        for (int64_t r = 0; r < kAllRows; ++r) {
          const TestTensor& want = r == row - kFirstRow ? together : base;
          ASSERT_TRUE(same_rows(row_slice(got, r, r + 1), row_slice(want, r, r + 1))) << "row " << r;
        }
      }
    }
  }
}

TEST(AddLowRank, LevelsGiveTheSameBits) {
  const std::vector<LowRank> changes = all_changes();
  const auto rows = rows_of_groups(changes.size(), kFirstRow);
  const auto groups = groups_of(changes, rows);
  const auto levels = fast_isas();
  for (const CpuIsa& isa : levels) {
    const TestContext ctx(*isa.table);
    EXPECT_TRUE(same_rows(result_of(*isa.table, ctx, groups), result_of(*levels[0].table, ctx, groups)))
        << isa.name;
  }
}

// More rows than the workspace has room for are computed in turn.
TEST(AddLowRank, WorkspaceMayBeSmallerThanTheRows) {
  const std::vector<LowRank> changes = all_changes();
  const auto rows = rows_of_groups(changes.size(), kFirstRow);
  const auto groups = groups_of(changes, rows);
  for (const CpuIsa& isa : fast_isas()) {
    const TestContext ctx(*isa.table, 2);
    OpContext small = ctx;
    small.workspace = small.workspace.first(2000);
    EXPECT_TRUE(same_rows(result_of(*isa.table, small, groups), result_of(*isa.table, ctx, groups)))
        << isa.name;
  }
}

TEST(AddLowRank, ShapesAreChecked) {
  const LowRank change = make_change(DType::kF32, {{.out_begin = 0, .n = 4, .rank = 2}}, 1);
  const TestTensor x = random_tensor(DType::kF32, {2, kColumnsOfA}, 3);
  const TestTensor out = random_tensor(DType::kF32, {2, 4}, 4);
  const auto run = [&](const TensorView& to, const LowRank& of, std::vector<int32_t> rows) {
    const std::array<LowRankGroup, 1> groups = {{{&of, rows}}};
    checked(reference_ops()).run({}, ops::AddLowRank{.out = to, .x = x, .groups = groups});
  };
  EXPECT_NO_THROW(run(out, change, {0, 1}));
  EXPECT_THROW(run(out, change, {1, 0}), Error);
  EXPECT_THROW(run(out, change, {2}), Error);
  EXPECT_THROW(run(column_slice(out, 0, 3), change, {0}), Error);
  EXPECT_THROW(run(row_slice(out, 0, 1), change, {0}), Error);
  LowRank short_b = make_change(DType::kF32, {{.out_begin = 0, .n = 3, .rank = 2}}, 1);
  short_b.pieces[0].n = 4;
  EXPECT_THROW(run(out, short_b, {0}), Error);
}

}  // namespace
}  // namespace quire
