// Additions of low rank to grouped products: every level computes the reference's values, and a term has the
// same bits in any call.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
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

constexpr int64_t kDepth = 147;
constexpr int64_t kWidth = 200;
constexpr int32_t kNumExperts = 5;
constexpr int32_t kNumRows = 70;
constexpr int32_t kExpertsOfRow = 2;
constexpr int32_t kFirstOfRows = 100;

std::unique_ptr<const LowRank> make_expert_change(DType dtype, std::vector<LowRank::Piece> pieces,
                                                  uint32_t seed) {
  LowRank change{.k = kDepth, .dtype = dtype, .pieces = std::move(pieces)};
  change.a = random_buffer(dtype, change.ranks() * kDepth, seed);
  change.b = random_buffer(dtype, change.elements() - change.ranks() * change.k, seed + 1);
  if (seed % 3 == 0) change.bias = random_buffer(DType::kF32, kWidth, seed + 2);
  return std::make_unique<LowRank>(std::move(change));
}

using Changes = std::vector<std::unique_ptr<const LowRank>>;

// Adapters with ranks 1 to 64, some experts of which are unchanged. Site 2 e + 1 is that of expert e.
std::vector<Changes> changes_of_experts() {
  constexpr std::array<int64_t, 4> kRanks = {1, 16, 64, 5};
  constexpr std::array<DType, 4> kTypes = {DType::kF32, DType::kBF16, DType::kF16, DType::kF32};
  std::vector<Changes> all(kRanks.size());
  uint32_t seed = 20;
  for (size_t a = 0; a < all.size(); ++a) {
    all[a].resize(2 * kNumExperts);
    for (size_t e = 0; e < kNumExperts; ++e, ++seed) {
      if ((a + e) % 4 == 3) continue;
      std::vector<LowRank::Piece> pieces = {{.out_begin = 0, .n = 100, .rank = kRanks[a], .scale = 0.5F}};
      if (a == 3) pieces.push_back({.out_begin = 120, .n = 80, .rank = 17, .scale = -2.0F});
      all[a][2 * e + 1] = make_expert_change(kTypes[a], std::move(pieces), seed);
    }
    if (a == 1) all[a].resize(4);  // the rest is beyond the end
  }
  return all;
}

// Two experts for each row, sorted by expert; expert 2 has none.
struct SortedTerms {
  std::vector<int32_t> offsets = {0};
  std::vector<int32_t> rows;

  explicit SortedTerms(const std::vector<int32_t>& selected) {
    for (int32_t e = 0; e < kNumExperts; ++e) {
      for (const int32_t r : selected) {
        const int32_t first = r % kNumExperts == 2 ? 0 : r % kNumExperts;
        const int32_t second = first == 4 ? 1 : 4;
        if (e == first || e == second) rows.push_back(r);
      }
      offsets.push_back(static_cast<int32_t>(rows.size()));
    }
  }
};

std::vector<int32_t> rows_in_order() {
  std::vector<int32_t> rows(kNumRows);
  for (int32_t r = 0; r < kNumRows; ++r) rows[static_cast<size_t>(r)] = r;
  return rows;
}

// Most rows have the third adapter, and each seventh has none.
std::vector<std::vector<int32_t>> rows_of_adapters(size_t count) {
  std::vector<std::vector<int32_t>> rows(count);
  for (int32_t r = 0; r < kNumRows; ++r) {
    if (r % 7 == 0) continue;
    rows[r % 3 == 0 ? static_cast<size_t>(r) % count : 2].push_back(kFirstOfRows + r);
  }
  return rows;
}

// The result for terms of the rows, one after another. The inputs and the initial values are those of the
// row, or of the row and the expert.
TestTensor expert_result(const OpTable& table, const OpContext& ctx, const std::vector<Changes>& changes,
                         const SortedTerms& routed, bool by_row) {
  const auto rows = rows_of_adapters(changes.size());
  std::vector<LowRankExpertsGroup> groups;
  for (size_t a = 0; a < changes.size(); ++a) groups.push_back({changes[a], rows[a]});
  std::vector<int32_t> sites;
  for (int32_t e = 0; e < kNumExperts; ++e) sites.push_back(2 * e + 1);
  const auto terms = static_cast<int64_t>(routed.rows.size());
  const TestTensor inputs = random_tensor(DType::kF32, {kNumRows, kDepth}, 3, 5);
  TestTensor by_term(DType::kF32, {terms, kDepth});
  const TestTensor initial = random_tensor(DType::kF32, {kNumRows, kWidth}, 4, 3);
  TestTensor out(DType::kF32, {terms, kWidth});
  for (int64_t t = 0; t < terms; ++t) {
    const int64_t row = routed.rows[static_cast<size_t>(t)];
    std::copy_n(inputs.view().row<float>(row), kDepth, by_term.view().row<float>(t));
    std::copy_n(initial.view().row<float>(row), kWidth, out.view().row<float>(t));
  }
  checked(table).run(ctx, ops::AddLowRankExperts{.out = out,
                                                 .x = by_row ? inputs.view() : by_term.view(),
                                                 .groups = groups,
                                                 .sites = sites,
                                                 .offsets = routed.offsets,
                                                 .rows = routed.rows,
                                                 .num_rows = kNumRows,
                                                 .first_row = kFirstOfRows,
                                                 .by_row = by_row});
  return out;
}

TEST(AddLowRankExperts, EveryLevelComputesTheReferenceWithinRounding) {
  const auto changes = changes_of_experts();
  const SortedTerms routed(rows_in_order());
  const TestTensor want = expert_result(reference_ops(), {}, changes, routed, true);
  for (const CpuIsa& isa : fast_isas()) {
    SCOPED_TRACE(isa.name);
    const TestContext ctx(*isa.table, 2);
    const TestTensor got = expert_result(*isa.table, ctx, changes, routed, true);
    for (int64_t t = 0; t < want.view().rows(); ++t) {
      for (int64_t i = 0; i < kWidth; ++i)
        ASSERT_NEAR(got.get(t, i), want.get(t, i), 2e-3) << "term " << t << ", output " << i;
    }
  }
}

// The expected value is an addition to a product of the rows.
TEST(AddLowRankExperts, AddsToEachTermTheChangeOfItsExpertAndItsAdapter) {
  const auto changes = changes_of_experts();
  const SortedTerms routed(rows_in_order());
  const auto rows = rows_of_adapters(changes.size());
  const TestTensor got = expert_result(reference_ops(), {}, changes, routed, true);
  const TestTensor inputs = random_tensor(DType::kF32, {kNumRows, kDepth}, 3, 5);
  size_t changed = 0;
  for (size_t e = 0; e < kNumExperts; ++e) {
    for (int32_t t = routed.offsets[e]; t < routed.offsets[e + 1]; ++t) {
      const int32_t row = routed.rows[static_cast<size_t>(t)];
      TestTensor want = random_tensor(DType::kF32, {kNumRows, kWidth}, 4, 3);
      const std::vector<int32_t> own = {row};
      for (size_t a = 0; a < changes.size(); ++a) {
        if (std::ranges::count(rows[a], kFirstOfRows + row) == 0 || changes[a].size() <= 2 * e + 1) continue;
        if (changes[a][2 * e + 1] == nullptr) continue;
        const std::array<LowRankGroup, 1> group = {{{changes[a][2 * e + 1].get(), own}}};
        reference_ops().run({}, ops::AddLowRank{.out = want, .x = inputs, .groups = group});
        ++changed;
      }
      ASSERT_TRUE(same_rows(row_slice(got, t, t + 1), row_slice(want, row, row + 1))) << "term " << t;
    }
  }
  EXPECT_GT(changed, 60U);
  EXPECT_LT(changed, routed.rows.size());
}

TEST(AddLowRankExperts, ATermHasTheSameBitsAloneAndOnAnyNumberOfThreads) {
  const auto changes = changes_of_experts();
  const SortedTerms routed(rows_in_order());
  for (const CpuIsa& isa : fast_isas()) {
    SCOPED_TRACE(isa.name);
    const TestContext one(*isa.table);
    const TestContext three(*isa.table, 3);
    const TestTensor together = expert_result(*isa.table, three, changes, routed, true);
    EXPECT_TRUE(same_rows(expert_result(*isa.table, one, changes, routed, true), together));
    EXPECT_TRUE(same_rows(expert_result(*isa.table, one, changes, routed, false), together));
    for (int32_t row = 0; row < kNumRows; ++row) {
      const SortedTerms own({row});
      const TestTensor alone = expert_result(*isa.table, one, changes, own, true);
      int64_t found = 0;
      for (int64_t t = 0; t < together.view().rows(); ++t) {
        if (routed.rows[static_cast<size_t>(t)] != row) continue;
        ASSERT_TRUE(same_rows(row_slice(alone, found, found + 1), row_slice(together, t, t + 1)))
            << "row " << row;
        ++found;
      }
      ASSERT_EQ(found, kExpertsOfRow);
    }
  }
}

TEST(AddLowRankExperts, LevelsGiveTheSameBits) {
  const auto changes = changes_of_experts();
  const SortedTerms routed(rows_in_order());
  const auto levels = fast_isas();
  for (const CpuIsa& isa : levels) {
    const TestContext ctx(*isa.table);
    EXPECT_TRUE(same_rows(expert_result(*isa.table, ctx, changes, routed, true),
                          expert_result(*levels[0].table, ctx, changes, routed, true)))
        << isa.name;
  }
}

// More terms than the workspace has room for are computed in turn.
TEST(AddLowRankExperts, WorkspaceMayBeSmallerThanTheTerms) {
  const auto changes = changes_of_experts();
  const SortedTerms routed(rows_in_order());
  for (const CpuIsa& isa : fast_isas()) {
    const TestContext ctx(*isa.table, 2);
    OpContext small = ctx;
    small.workspace = small.workspace.first(2200);
    EXPECT_TRUE(same_rows(expert_result(*isa.table, small, changes, routed, true),
                          expert_result(*isa.table, ctx, changes, routed, true)))
        << isa.name;
  }
}

}  // namespace
}  // namespace quire
