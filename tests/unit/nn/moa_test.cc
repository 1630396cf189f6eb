// Mixture of attention heads against its equation in plain loops.
#include "nn/moa_spec.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "ops/reference.h"
#include "unit/nn/nn_testing.h"

namespace quire {
namespace {

using test::checked_ops;
using test::dot;
using test::Matrix;

constexpr int64_t kMoaHidden = 6;
constexpr int32_t kMoaDim = 4;
constexpr int32_t kKvHeads = 2;
constexpr int64_t kSize = int64_t{kKvHeads} * kMoaDim;
constexpr int64_t kMoaTokens = 3;
constexpr int32_t kExperts = 3;

// One head of softmax attention of row r over rows 0 to r.
std::vector<double> attend(const Matrix& x, int64_t r, int64_t head, const Matrix& wq, const Matrix& wk,
                           const Matrix& wv) {
  std::vector<double> weight;
  double sum = 0.0;
  for (int64_t t = 0; t <= r; ++t) {
    double score = 0.0;
    for (int64_t d = head * kMoaDim; d < (head + 1) * kMoaDim; ++d)
      score += dot(x, r, wq, d) * dot(x, t, wk, d);
    weight.push_back(std::exp(0.5 * score));
    sum += weight.back();
  }
  std::vector<double> out(kMoaDim);
  for (int64_t t = 0; t <= r; ++t) {
    for (int64_t d = 0; d < kMoaDim; ++d)
      out[static_cast<size_t>(d)] += weight[static_cast<size_t>(t)] / sum * dot(x, t, wv, head * kMoaDim + d);
  }
  return out;
}

// Three experts, two per token, each with two query heads; one sequence of three tokens; no RoPE.
TEST(Moa, IsTheWeightedSumOfTheAttentionOfTheSelectedExperts) {
  const Matrix router(kExperts, kMoaHidden, 1);
  const Matrix wk(kSize, kMoaHidden, 2);
  const Matrix wv(kSize, kMoaHidden, 3);
  const std::array<Matrix, kExperts> wq = {Matrix(kSize, kMoaHidden, 4), Matrix(kSize, kMoaHidden, 5),
                                           Matrix(kSize, kMoaHidden, 6)};
  const std::array<Matrix, kExperts> wo = {Matrix(kMoaHidden, kSize, 7), Matrix(kMoaHidden, kSize, 8),
                                           Matrix(kMoaHidden, kSize, 9)};
  const Matrix x(kMoaTokens, kMoaHidden, 10);
  const Matrix bias(1, kMoaHidden, 11);
  Matrix hidden(kMoaTokens, kMoaHidden, 12);
  const Matrix before = hidden;
  const MoaSpec spec{.num_experts = kExperts,
                     .num_kv_heads = kKvHeads,
                     .head_dim = kMoaDim,
                     .router = {.scoring_func = ScoringFunc::kChosenSoftmax, .num_experts_per_tok = 2},
                     .scale = 0.5F};
  const auto moa = make_mixer(spec);
  test::GivenWeights weights({{moa::kRouter.name, {router}},
                              {moa::kKProj.name, {wk}},
                              {moa::kVProj.name, {wv}},
                              {moa::kExpertQProj.name, {wq.begin(), wq.end()}},
                              {moa::kExpertOProj.name, {wo.begin(), wo.end()}},
                              {moa::kBias.name, {bias}}});
  moa->visit({kMoaHidden}, weights);

  constexpr int32_t kBlock = 2;
  const int64_t block_bytes = kv_bytes(spec, DType::kF32, kBlock);
  Buffer pool(static_cast<size_t>(block_bytes * 3));
  const KvCacheView cache{pool.data(), block_bytes, 0, DType::kF32, kBlock, kKvHeads, kMoaDim, kMoaDim};
  const std::vector<int32_t> tokens(kMoaTokens);
  const std::vector<int32_t> positions = {0, 1, 2};
  const std::vector<int64_t> slots = {4, 5, 0};
  const std::vector<int32_t> cu = {0, kMoaTokens};
  const std::vector<int32_t> lens = {kMoaTokens};
  const std::vector<int32_t> indptr = {0, 2};
  const std::vector<int32_t> blocks = {2, 0};
  ForwardBatch batch;
  batch.token_ids = tokens;
  batch.positions = positions;
  batch.slot_mapping = slots;
  batch.attention = {1, cu, lens, indptr, blocks};
  Buffer workspace(reference_ops().workspace_bytes(kMoaTokens, kMoaTokens, spec.num_heads(), kMoaDim, 1));
  const OpContext ctx{nullptr, {workspace.data(), workspace.size()}};
  test::forward(OpRunner{checked_ops(), ctx}, *moa, hidden.view, x.view, batch, cache);

  for (int64_t r = 0; r < kMoaTokens; ++r) {
    std::array<double, kExperts> weight{};
    double sum = 0.0;
    int64_t worst = 0;
    for (int64_t e = 1; e < kExperts; ++e) {
      if (dot(x, r, router, e) < dot(x, r, router, worst)) worst = e;
    }
    for (int64_t e = 0; e < kExperts; ++e) {
      weight[static_cast<size_t>(e)] = e == worst ? 0.0 : std::exp(dot(x, r, router, e));
      sum += weight[static_cast<size_t>(e)];
    }
    for (int64_t n = 0; n < kMoaHidden; ++n) {
      double expected = double{before.at(r, n)} + bias.at(0, n);
      for (size_t e = 0; e < wq.size(); ++e) {
        for (int64_t h = 0; h < kKvHeads; ++h) {
          const std::vector<double> result = attend(x, r, h, wq[e], wk, wv);
          for (int64_t d = 0; d < kMoaDim; ++d)
            expected += weight[e] / sum * wo[e].at(n, h * kMoaDim + d) * result[static_cast<size_t>(d)];
        }
      }
      EXPECT_NEAR(hidden.at(r, n), expected, 1e-4);
    }
  }
}

}  // namespace
}  // namespace quire
