// Adapters on the experts of a mixture of experts.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "nn/adapter.h"
#include "nn/moe.h"
#include "unit/nn/nn_testing.h"

namespace quire {
namespace {

using test::Matrix;
using test::OwnScratch;
using test::pack;
using test::runner;
using test::vector_of;

constexpr int64_t kHiddenSize = 6;
constexpr int64_t kIntermediate = 32;  // a full panel of gates
constexpr int64_t kNumRows = 7;
constexpr size_t kNumExperts = 3;

// Changes of rank 1 of the matrices of some experts, as vectors a and b.
struct Change {
  Matrix a;
  Matrix b;
};
struct AdaptedExperts {
  std::vector<Matrix> ups;    // [2 intermediate, hidden]
  std::vector<Matrix> downs;  // [hidden, intermediate]
  std::vector<Change> up_changes;
  std::vector<Change> down_changes;
  Matrix router{kNumExperts, kHiddenSize, 1};

  AdaptedExperts() {
    for (uint32_t e = 0; e < kNumExperts; ++e) {
      ups.emplace_back(2 * kIntermediate, kHiddenSize, 10 + e);
      downs.emplace_back(kHiddenSize, kIntermediate, 20 + e);
      up_changes.push_back({Matrix(1, kHiddenSize, 30 + e), Matrix(2 * kIntermediate, 1, 40 + e)});
      down_changes.push_back({Matrix(1, kIntermediate, 50 + e), Matrix(kHiddenSize, 1, 60 + e)});
    }
  }

  // Site 2 e is that of the gates and ups of expert e, site 2 e + 1 that of its downs.
  AdapterWeights adapter(const std::vector<size_t>& up_experts,
                         const std::vector<size_t>& down_experts) const {
    AdapterWeights adapter;
    adapter.sites.resize(2 * kNumExperts);
    const auto add = [&](size_t site, const Change& change) {
      auto low_rank = std::make_unique<LowRank>();
      low_rank->k = change.a.view.row_size();
      low_rank->pieces = {{.out_begin = 0, .n = change.b.view.rows(), .rank = 1}};
      low_rank->a = vector_of(change.a.values);
      low_rank->b = vector_of(change.b.values);
      adapter.sites[site] = std::move(low_rank);
    };
    for (const size_t e : up_experts) add(2 * e, up_changes[e]);
    for (const size_t e : down_experts) add(2 * e + 1, down_changes[e]);
    return adapter;
  }

  static Linear changed(const Matrix& w, const Change* change, int32_t site) {
    Matrix sum = w;
    for (int64_t n = 0; change != nullptr && n < w.view.rows(); ++n) {
      for (int64_t k = 0; k < w.view.row_size(); ++k)
        sum.view.row<float>(n)[k] += change->b.at(n, 0) * change->a.at(0, k);
    }
    Linear linear = pack({&sum});
    linear.site = site;
    return linear;
  }

  struct Form {
    bool fused = false;
    bool weight_on_input = false;
    int32_t zero_experts = 0;
  };
  // merged: with all changes in the matrices.
  void fill(Moe& moe, const Form& form, bool merged) const {
    moe.spec = {.num_experts = kNumExperts,
                .intermediate_size = kIntermediate,
                .router = {.scoring_func = ScoringFunc::kSigmoid, .num_experts_per_tok = 2},
                .apply_router_weight_on_input = form.weight_on_input};
    moe.spec.zero_expert_num = form.zero_experts;
    const Matrix more(kNumExperts + static_cast<size_t>(form.zero_experts), kHiddenSize, 1);
    moe.router = pack({&more});
    for (size_t e = 0; e < kNumExperts; ++e) {
      const auto site = static_cast<int32_t>(2 * e);
      moe.experts.push_back(Mlp{{.intermediate_size = kIntermediate},
                                changed(ups[e], merged ? &up_changes[e] : nullptr, site),
                                changed(downs[e], merged ? &down_changes[e] : nullptr, site + 1)});
      if (form.fused) moe.experts.back().up.weight.gate = Activation::kSilu;
    }
    group_experts(moe);
  }
};

// Runs the rows [begin, end) of x.
std::vector<float> run_rows(const OpRunner& run, const Moe& moe, const Matrix& x, int64_t begin,
                            int64_t end) {
  const int64_t rows = end - begin;
  ScratchLayout count(rows);
  MoeScratch{moe, kHiddenSize, count};
  OwnScratch memory(count.size());
  ScratchLayout layout(rows, memory.memory());
  const MoeScratch scratch{moe, kHiddenSize, layout};
  Matrix out(rows, kHiddenSize, 4);
  apply(run, moe, out.view, row_slice(x.view, begin, end), {}, scratch, {}, {});
  return out.values;
}

class ExpertAdapters : public testing::TestWithParam<AdaptedExperts::Form> {
 protected:
  // Rows 1, 2 and 5 have all changes, and row 4 some.
  std::vector<float> with_adapters(const Moe& moe, int64_t step) const {
    const std::vector<AdapterUse> uses = {{&all_, all_rows_}, {&some_, some_rows_}};
    std::vector<LowRankGroup> groups(uses.size());
    std::vector<LowRankExpertsGroup> expert_groups(uses.size());
    const AdapterRows rows{
        .uses = uses, .groups = groups, .expert_groups = expert_groups, .num_rows = kNumRows};
    const OpRunner run{runner().table, runner().ctx, &rows};
    std::vector<float> out;
    for (int64_t begin = 0; begin < kNumRows; begin += step) {
      const int64_t end = std::min(kNumRows, begin + step);
      const RunnerOfRows part(run, begin, end);
      const std::vector<float> own = run_rows(part.get(), moe, x_, begin, end);
      out.insert(out.end(), own.begin(), own.end());
    }
    return out;
  }
  std::vector<float> without_adapters(const Moe& moe) const {
    return run_rows(runner(), moe, x_, 0, kNumRows);
  }
  static std::vector<float> row(const std::vector<float>& all, int64_t r) {
    return {all.begin() + r * kHiddenSize, all.begin() + (r + 1) * kHiddenSize};
  }

  AdaptedExperts experts_;
  AdapterWeights all_ = experts_.adapter({0, 1, 2}, {0, 1, 2});
  AdapterWeights some_ = experts_.adapter({1}, {0, 1});
  std::vector<int32_t> all_rows_ = {1, 2, 5};
  std::vector<int32_t> some_rows_ = {4};
  Matrix x_{kNumRows, kHiddenSize, 3};
};

TEST_P(ExpertAdapters, ChangeTheRowsOfTheirRequestsAsMergedMatricesDo) {
  Moe moe;
  experts_.fill(moe, GetParam(), false);
  Moe merged;
  experts_.fill(merged, GetParam(), true);
  const std::vector<float> base = without_adapters(moe);
  const std::vector<float> changed = without_adapters(merged);
  const std::vector<float> got = with_adapters(moe, kNumRows);
  for (const int64_t r : {0, 3, 6}) EXPECT_EQ(row(got, r), row(base, r)) << "row " << r;
  for (const int64_t r : {1, 2, 5}) {
    for (int64_t n = 0; n < kHiddenSize; ++n)
      EXPECT_NEAR(row(got, r)[static_cast<size_t>(n)], row(changed, r)[static_cast<size_t>(n)], 1e-2)
          << "row " << r;
  }
  EXPECT_NE(row(got, 4), row(base, 4));
  EXPECT_NE(row(got, 4), row(changed, 4));
}

TEST_P(ExpertAdapters, GiveTheSameBitsForPartsOfTheRows) {
  Moe moe;
  experts_.fill(moe, GetParam(), false);
  const std::vector<float> whole = with_adapters(moe, kNumRows);
  EXPECT_EQ(with_adapters(moe, 1), whole);
  EXPECT_EQ(with_adapters(moe, 3), whole);
}

TEST_P(ExpertAdapters, GiveTheBitsOfASeparateActivation) {
  AdaptedExperts::Form separate = GetParam();
  separate.fused = false;
  Moe moe;
  experts_.fill(moe, GetParam(), false);
  Moe other;
  experts_.fill(other, separate, false);
  EXPECT_EQ(with_adapters(moe, kNumRows), with_adapters(other, kNumRows));
}

INSTANTIATE_TEST_SUITE_P(Forms, ExpertAdapters,
                         testing::Values(AdaptedExperts::Form{}, AdaptedExperts::Form{.fused = true},
                                         AdaptedExperts::Form{.fused = true, .weight_on_input = true},
                                         AdaptedExperts::Form{.fused = true, .zero_experts = 2}));

TEST(ExpertAdapterRows, AreCheckedAgainstTheRowsOfTheLayer) {
  const AdaptedExperts experts;
  Moe moe;
  experts.fill(moe, {}, false);
  const AdapterRows rows{.num_rows = 3};
  const OpRunner run{runner().table, runner().ctx, &rows};
  const Matrix x(2, kHiddenSize, 3);
  EXPECT_THROW(run_rows(run, moe, x, 0, 2), Error);
}

}  // namespace
}  // namespace quire
