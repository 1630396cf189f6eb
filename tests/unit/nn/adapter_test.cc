// Adapters of rows: which rows a layer changes, and by how much.
#include "nn/adapter.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "nn/layers.h"
#include "nn/mlp.h"
#include "unit/nn/nn_testing.h"

namespace quire {
namespace {

using test::dot;
using test::Matrix;
using test::pack;
using test::runner;
using test::vector_of;

// A change of rank 1: out += scale * (a · x) b.
std::unique_ptr<const LowRank> rank_one(const std::vector<float>& a, const std::vector<float>& b,
                                        float scale) {
  auto change = std::make_unique<LowRank>();
  change->k = static_cast<int64_t>(a.size());
  change->pieces = {{.out_begin = 0, .n = static_cast<int64_t>(b.size()), .rank = 1, .scale = scale}};
  change->a = vector_of(a);
  change->b = vector_of(b);
  return change;
}

AdapterWeights adapter_at(int32_t site, std::unique_ptr<const LowRank> change) {
  AdapterWeights adapter;
  adapter.sites.resize(static_cast<size_t>(site) + 1);
  adapter.sites.back() = std::move(change);
  return adapter;
}

// The adapters of some rows, with their memory.
class RowsWithAdapters {
 public:
  RowsWithAdapters(std::vector<AdapterUse> uses, int64_t num_rows)
      : uses_(std::move(uses)),
        groups_(uses_.size()),
        expert_groups_(uses_.size()),
        embedding_groups_(uses_.size()),
        token_groups_(uses_.size()),
        rows_{uses_, groups_, expert_groups_, embedding_groups_, token_groups_, 0, num_rows} {}
  OpRunner run() const {
    OpRunner run = runner();
    return {run.table, run.ctx, &rows_};
  }
  const AdapterRows& get() const { return rows_; }

 private:
  std::vector<AdapterUse> uses_;
  std::vector<LowRankGroup> groups_;
  std::vector<LowRankExpertsGroup> expert_groups_;
  std::vector<EmbeddingGroup> embedding_groups_;
  std::vector<TrainedTokensGroup> token_groups_;
  AdapterRows rows_;
};

TEST(AdapterRows, ALayerChangesTheRowsOfItsAdaptersOnly) {
  const Matrix w(3, 4, 1);
  const Matrix x(4, 4, 2);
  Linear linear = pack({&w});
  linear.site = 2;
  const std::vector<float> a = {1.0F, 0.0F, -2.0F, 0.5F};
  const std::vector<float> b = {1.0F, 2.0F, 3.0F};
  const AdapterWeights twice = adapter_at(2, rank_one(a, b, 2.0F));
  const AdapterWeights half = adapter_at(2, rank_one(a, b, 0.5F));
  const AdapterWeights elsewhere = adapter_at(1, rank_one(a, b, 7.0F));
  const std::vector<int32_t> first = {1};
  const std::vector<int32_t> second = {3};
  const std::vector<int32_t> third = {2};
  const RowsWithAdapters rows({{&twice, first}, {&half, second}, {&elsewhere, third}}, 4);
  Matrix out(4, 3, 3);
  apply(rows.run(), linear, out.view, x.view);
  const std::array<double, 4> scales = {0.0, 2.0, 0.0, 0.5};
  for (int64_t r = 0; r < 4; ++r) {
    const double h = x.at(r, 0) - 2.0 * x.at(r, 2) + 0.5 * x.at(r, 3);
    for (int64_t n = 0; n < 3; ++n)
      EXPECT_NEAR(out.at(r, n), dot(x, r, w, n) + scales[static_cast<size_t>(r)] * h * (n + 1.0), 1e-5);
  }
}

TEST(AdapterRows, APartOfTheRowsHasThePartOfTheAdapters) {
  const Matrix w(3, 4, 1);
  const Matrix x(6, 4, 2);
  Linear linear = pack({&w});
  linear.site = 0;
  const AdapterWeights adapter = adapter_at(0, rank_one({1, 2, 3, 4}, {5, 6, 7}, 1.0F));
  const std::vector<int32_t> own = {0, 2, 3, 5};
  const RowsWithAdapters rows({{&adapter, own}}, 6);
  Matrix whole(6, 3, 3);
  Matrix parts(6, 3, 4);
  apply(rows.run(), linear, whole.view, x.view);
  for (int64_t begin = 0; begin < 6; begin += 2) {
    const RunnerOfRows part(rows.run(), begin, begin + 2);
    apply(part.get(), linear, row_slice(parts.view, begin, begin + 2), row_slice(x.view, begin, begin + 2));
  }
  EXPECT_EQ(parts.values, whole.values);
  EXPECT_TRUE(groups_at(rows.get().slice(1, 2), 0, 1).empty());
}

TEST(AdapterRows, AreCheckedAgainstTheRowsOfTheLayer) {
  const Matrix w(3, 4, 1);
  const Matrix x(2, 4, 2);
  Linear linear = pack({&w});
  linear.site = 0;
  const RowsWithAdapters rows({}, 3);
  Matrix out(2, 3, 3);
  EXPECT_THROW(apply(rows.run(), linear, out.view, x.view), Error);
  linear.site = -1;  // no adapter can change it
  EXPECT_NO_THROW(apply(rows.run(), linear, out.view, x.view));
}

std::shared_ptr<const ReplacedMatrix> own_matrix(const Matrix& w) {
  auto own = std::make_shared<ReplacedMatrix>();
  own->weight = std::move(pack({&w}).weight);
  return own;
}

// Rows of two adapters with matrices of their own, of one without, and of none.
TEST(AdapterRows, AreMultipliedByTheMatrixThatTheirAdapterHasInstead) {
  constexpr int64_t kRows = 9;
  const std::array<Matrix, 3> w = {Matrix(3, 4, 1), Matrix(3, 4, 2), Matrix(3, 4, 3)};
  const Matrix x(kRows, 4, 4);
  const Matrix residual(kRows, 3, 5);
  Linear linear = pack({&w[0]});
  linear.site = 2;
  AdapterWeights first = adapter_at(2, rank_one({1, 0, 0, 0}, {1, 1, 1}, 1.0F));
  first.matrices[2] = own_matrix(w[1]);
  AdapterWeights second;
  second.matrices[2] = own_matrix(w[2]);
  const AdapterWeights other = adapter_at(1, rank_one({1, 1, 1, 1}, {1, 1, 1}, 1.0F));
  const std::vector<int32_t> of_first = {1, 2, 6};
  const std::vector<int32_t> of_second = {3, 8};
  const std::vector<int32_t> of_other = {4, 7};
  const RowsWithAdapters rows({{&first, of_first}, {&second, of_second}, {&other, of_other}}, kRows);
  Matrix out(kRows, 3, 6);
  apply(rows.run(), linear, out.view, x.view, residual.view);
  const std::array<size_t, kRows> matrix_of = {0, 1, 1, 2, 0, 0, 1, 0, 2};
  for (int64_t r = 0; r < kRows; ++r) {
    const size_t own = matrix_of[static_cast<size_t>(r)];
    for (int64_t n = 0; n < 3; ++n) {
      const double change = own == 1 ? x.at(r, 0) : 0.0;
      EXPECT_NEAR(out.at(r, n), dot(x, r, w[own], n) + residual.at(r, n) + change, 1e-5) << r;
    }
  }
  // Parts of the rows have the same bits.
  Matrix parts(kRows, 3, 7);
  for (int64_t begin = 0; begin < kRows; begin += 4) {
    const int64_t end = std::min(kRows, begin + 4);
    const RunnerOfRows part(rows.run(), begin, end);
    apply(part.get(), linear, row_slice(parts.view, begin, end), row_slice(x.view, begin, end),
          row_slice(residual.view, begin, end));
  }
  EXPECT_EQ(parts.values, out.values);
}

TEST(AdapterRows, HaveTheEmbeddingsOfTheirAdapter) {
  const Matrix table(5, 3, 1);
  const Matrix other(5, 3, 2);
  Embedding embedding{.table = table.view, .owned = {}, .site = 4};
  AdapterWeights low_rank;
  auto change = std::make_unique<EmbeddingChange>();
  *change = {.vocab_size = 5, .size = 3, .rank = 1, .scale = 2.0F};
  change->a = vector_of({1, 2, 3, 4, 5});
  change->b = vector_of({1, 10, 100});
  low_rank.embeddings[4] = std::move(change);
  AdapterWeights replaced;
  replaced.tables[4] = own_matrix(other);
  const std::vector<int32_t> of_low_rank = {1, 3};
  const std::vector<int32_t> of_replaced = {2};
  const RowsWithAdapters rows({{&low_rank, of_low_rank}, {&replaced, of_replaced}}, 5);
  const std::vector<int32_t> ids = {4, 3, 2, 0, 2};
  Matrix out(5, 3, 3);
  apply(rows.run(), embedding, out.view, ids);
  const std::array<float, 3> b = {1, 10, 100};
  for (int64_t n = 0; n < 3; ++n) {
    EXPECT_EQ(out.at(0, n), table.at(4, n));
    EXPECT_FLOAT_EQ(out.at(1, n), table.at(3, n) + 2 * 4 * b[static_cast<size_t>(n)]);
    EXPECT_EQ(out.at(2, n), other.at(2, n));
    EXPECT_FLOAT_EQ(out.at(3, n), table.at(0, n) + 2 * 1 * b[static_cast<size_t>(n)]);
    EXPECT_EQ(out.at(4, n), table.at(2, n));
  }
}

// Trained tokens are rows of the embedding, and outputs of a tied layer.
TEST(AdapterRows, HaveTheTrainedTokensOfTheirAdapter) {
  const Matrix table(5, 3, 1);
  const Matrix x(3, 3, 2);
  Embedding embedding{.table = table.view, .owned = {}, .site = 4};
  Linear head = pack({&table});
  head.site = 4;
  auto tokens = std::make_shared<TrainedTokens>();
  tokens->size = 3;
  tokens->ids = {1, 3};
  tokens->values = vector_of({1, 2, 3, 4, 5, 6});
  AdapterWeights adapter;
  adapter.input_tokens[4] = tokens;
  adapter.output_tokens[4] = tokens;
  const std::vector<int32_t> own = {0, 2};
  const RowsWithAdapters rows({{&adapter, own}}, 3);
  const std::vector<int32_t> ids = {3, 3, 2};
  Matrix words(3, 3, 3);
  apply(rows.run(), embedding, words.view, ids);
  Matrix logits(3, 5, 4);
  apply(rows.run(), head, logits.view, x.view);
  for (int64_t n = 0; n < 3; ++n) {
    EXPECT_EQ(words.at(0, n), static_cast<float>(4 + n));
    EXPECT_EQ(words.at(1, n), table.at(3, n));
    EXPECT_EQ(words.at(2, n), table.at(2, n));
  }
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t t = 0; t < 5; ++t) {
      const bool trained = r != 1 && (t == 1 || t == 3);
      const double first = t == 1 ? 1.0 : 4.0;
      const double want = first * x.at(r, 0) + (first + 1) * x.at(r, 1) + (first + 2) * x.at(r, 2);
      EXPECT_NEAR(logits.at(r, t), trained ? want : dot(x, r, table, t), 1e-4) << r << ", " << t;
    }
  }
}

// The activation of a gated matrix comes after the change, also if the product applies it.
TEST(AdapterRows, AFusedActivationComesAfterTheChange) {
  constexpr int64_t kInner = 32;  // full panels of gates
  const Matrix gates(kInner, 4, 1);
  const Matrix ups(kInner, 4, 2);
  const Matrix downs(3, kInner, 3);
  const Matrix x(2, 4, 4);
  Mlp mlp{.spec = {.intermediate_size = kInner}, .up = pack({&gates, &ups}), .down = pack({&downs})};
  mlp.up.site = 0;
  const AdapterWeights adapter =
      adapter_at(0, rank_one({1, -1, 1, -1}, std::vector<float>(2 * kInner, 0.5F), 1.0F));
  const std::vector<int32_t> own = {1};
  const RowsWithAdapters rows({{&adapter, own}}, 2);
  const auto result = [&](bool fused, const OpRunner& run) {
    mlp.up.weight.gate = fused ? std::optional(Activation::kSilu) : std::nullopt;
    Matrix out(2, 3, 5);
    Matrix up(2, 2 * kInner, 6);
    Matrix act(2, kInner, 7);
    apply(run, mlp, out.view, x.view, {}, up.view, act.view);
    return out.values;
  };
  ASSERT_TRUE(can_gate(mlp.up.weight));
  const std::vector<float> changed = result(true, rows.run());
  EXPECT_EQ(changed, result(false, rows.run()));
  const std::vector<float> base = result(true, runner());
  EXPECT_EQ(std::vector<float>(base.begin(), base.begin() + 3),
            std::vector<float>(changed.begin(), changed.begin() + 3));
  EXPECT_NE(base, changed);
}

}  // namespace
}  // namespace quire
