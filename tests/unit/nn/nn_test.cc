// Mechanisms of the decoder, each against its equation in plain loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/error.h"
#include "nn/attention.h"
#include "nn/layers.h"
#include "nn/mlp.h"
#include "nn/moe.h"
#include "nn/shared_block.h"
#include "ops/reference.h"
#include "unit/nn/nn_testing.h"

namespace quire {
namespace {

using test::checked_ops;
using test::dot;
using test::Matrix;
using test::OwnScratch;
using test::pack;
using test::runner;
using test::silu;
using test::vector_of;

TEST(Linear, AddsBiasAndResidual) {
  const Matrix w(3, 4, 1);
  const Matrix x(2, 4, 2);
  Matrix out(2, 3, 3);
  const Matrix before = out;
  Linear linear = pack({&w});
  linear.weight.bias = vector_of({0.5F, -1.0F, 2.0F});
  apply(runner(), linear, out.view, x.view, out.view);
  for (int64_t r = 0; r < 2; ++r) {
    for (int64_t n = 0; n < 3; ++n) {
      const double expected =
          dot(x, r, w, n) + linear.weight.bias.as<float>()[n] + before.values[static_cast<size_t>(r * 3 + n)];
      EXPECT_NEAR(out.at(r, n), expected, 1e-5);
    }
  }
}

TEST(Embedding, ReadsTableAndPackedMatrixAlike) {
  const Matrix table(5, 8, 1);
  const Linear packed = pack({&table});
  const std::vector<int32_t> ids = {4, 0, 4};
  Matrix a(3, 8, 2);
  Matrix b(3, 8, 3);
  Embedding plain;
  plain.table = table.view;
  Embedding tied;
  tied.packed = &packed.weight;
  apply(runner(), plain, a.view, ids);
  apply(runner(), tied, b.view, ids);
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(a.at(0, i), table.at(4, i));
  EXPECT_EQ(a.values, b.values);
}

TEST(Norm, ComputesRmsNormAndLayerNorm) {
  const Matrix x(1, 6, 1);
  double mean = 0.0;
  double square = 0.0;
  for (const float v : x.values) {
    mean += v / 6.0;
    square += double{v} * v / 6.0;
  }
  const std::vector<float> weight = {1.0F, 2.0F, 0.5F, -1.0F, 1.5F, 3.0F};
  const std::vector<float> bias = {0.0F, 1.0F, 2.0F, 3.0F, 4.0F, 5.0F};
  Norm norm;
  norm.size = 6;
  norm.eps = 1e-3F;
  norm.weight = vector_of(weight);
  norm.weight_offset = 1.0F;
  Matrix out(1, 6, 2);
  apply(runner(), norm, out.view, x.view);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(out.values[i], x.values[i] / std::sqrt(square + 1e-3) * (weight[i] + 1.0), 1e-5);
  }
  norm.kind = NormKind::kLayer;
  norm.bias = vector_of(bias);
  apply(runner(), norm, out.view, x.view);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(out.values[i],
                (x.values[i] - mean) / std::sqrt(square - mean * mean + 1e-3) * weight[i] + bias[i], 1e-4);
  }
}

TEST(Mlp, GatedMatchesTheFormula) {
  const Matrix gate(5, 4, 1);
  const Matrix up(5, 4, 2);
  const Matrix down(4, 5, 3);
  const Matrix x(2, 4, 4);
  Matrix hidden(2, 4, 5);
  const Matrix before = hidden;
  Mlp mlp{.spec = {.intermediate_size = 5}};
  mlp.up = pack({&gate, &up});
  mlp.down = pack({&down});
  Matrix scratch(2, 10, 6);
  Matrix act(2, 5, 7);
  apply(runner(), mlp, hidden.view, x.view, hidden.view, scratch.view, act.view);
  for (int64_t r = 0; r < 2; ++r) {
    for (int64_t n = 0; n < 4; ++n) {
      double expected = before.values[static_cast<size_t>(r * 4 + n)];
      for (int64_t i = 0; i < 5; ++i) expected += down.at(n, i) * silu(dot(x, r, gate, i)) * dot(x, r, up, i);
      EXPECT_NEAR(hidden.at(r, n), expected, 1e-4);
    }
  }
}

TEST(Mlp, UngatedMatchesTheFormula) {
  const Matrix up(5, 4, 2);
  const Matrix down(4, 5, 3);
  const Matrix x(2, 4, 4);
  Matrix hidden(2, 4, 5);
  const Matrix before = hidden;
  Mlp mlp{.spec = {.intermediate_size = 5, .gated = false, .activation = Activation::kRelu}};
  mlp.up = pack({&up});
  mlp.down = pack({&down});
  Matrix scratch(2, 5, 6);
  apply(runner(), mlp, hidden.view, x.view, hidden.view, scratch.view, {});
  for (int64_t r = 0; r < 2; ++r) {
    for (int64_t n = 0; n < 4; ++n) {
      double expected = before.values[static_cast<size_t>(r * 4 + n)];
      for (int64_t i = 0; i < 5; ++i) expected += down.at(n, i) * std::max(0.0, dot(x, r, up, i));
      EXPECT_NEAR(hidden.at(r, n), expected, 1e-4);
    }
  }
}

// Three experts, two per row, and a shared expert with a gate. Weights apply to the output or to the input.
TEST(Moe, IsTheWeightedSumOfTheSelectedExperts) {
  constexpr int64_t kHidden = 5;
  constexpr int64_t kInner = 4;
  const Matrix router(3, kHidden, 1);
  const Matrix gate(1, kHidden, 2);
  std::vector<Matrix> ups;
  std::vector<Matrix> downs;
  for (uint32_t e = 0; e < 4; ++e) {
    ups.emplace_back(2 * kInner, kHidden, 10 + e);
    downs.emplace_back(kHidden, kInner, 20 + e);
  }
  const auto mlp = [&](size_t e) {
    return Mlp{{.intermediate_size = kInner}, pack({&ups[e]}), pack({&downs[e]})};
  };
  const auto value = [&](size_t e, const std::vector<double>& x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < kInner; ++i) {
      double g = 0;
      double u = 0;
      for (int64_t j = 0; j < kHidden; ++j) {
        g += ups[e].at(i, j) * x[static_cast<size_t>(j)];
        u += ups[e].at(kInner + i, j) * x[static_cast<size_t>(j)];
      }
      sum += downs[e].at(n, i) * silu(g) * u;
    }
    return sum;
  };
  const auto check = [&](int64_t rows, bool apply_router_weight_on_input) {
    Moe moe;
    moe.spec = {.num_experts = 3,
                .intermediate_size = kInner,
                .shared_intermediate_size = kInner,
                .router = {.scoring_func = ScoringFunc::kSigmoid,
                           .num_experts_per_tok = 2,
                           .routed_scaling_factor = 1.5F},
                .apply_router_weight_on_input = apply_router_weight_on_input};
    moe.router = pack({&router});
    for (size_t e = 0; e < 3; ++e) moe.experts.push_back(mlp(e));
    group_experts(moe);
    moe.shared = mlp(3);
    moe.shared_gate = pack({&gate});
    ScratchLayout count(rows);
    MoeScratch{moe, kHidden, count};
    OwnScratch memory(count.size());
    ScratchLayout layout(rows, memory.memory());
    const MoeScratch scratch{moe, kHidden, layout};
    const Matrix x(rows, kHidden, 3);
    Matrix hidden(rows, kHidden, 4);
    const Matrix before = hidden;
    Matrix up(rows, 2 * kInner, 5);
    Matrix act(rows, kInner, 6);
    apply(runner(), moe, hidden.view, x.view, hidden.view, scratch, up.view, act.view);
    const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<double> row;
      for (int64_t j = 0; j < kHidden; ++j) row.push_back(x.at(r, j));
      size_t worst = 0;
      for (size_t e = 1; e < 3; ++e) {
        if (dot(x, r, router, static_cast<int64_t>(e)) < dot(x, r, router, static_cast<int64_t>(worst)))
          worst = e;
      }
      for (int64_t n = 0; n < kHidden; ++n) {
        double expected = before.at(r, n) + sigmoid(dot(x, r, gate, 0)) * value(3, row, n);
        for (size_t e = 0; e < 3; ++e) {
          if (e == worst) continue;
          const double weight = 1.5 * sigmoid(dot(x, r, router, static_cast<int64_t>(e)));
          std::vector<double> read = row;
          for (double& v : read) v *= apply_router_weight_on_input ? weight : 1.0;
          expected += (apply_router_weight_on_input ? 1.0 : weight) * value(e, read, n);
        }
        EXPECT_NEAR(hidden.at(r, n), expected, 1e-4)
            << "row " << r << ", weigh input " << apply_router_weight_on_input;
      }
    }
  };
  // With few rows, some are the only one of an expert.
  for (const int64_t rows : {6, 3, 2}) {
    for (const bool apply_router_weight_on_input : {false, true}) check(rows, apply_router_weight_on_input);
  }
}

// The rows of a layer may have several formats, and those of the next one may be divided elsewhere.
TEST(LinearGroup, AppliesLayersThatAreDividedDifferently) {
  constexpr int64_t kIn = 6;
  const Matrix top(3, kIn, 1);
  const Matrix bottom(5, kIn, 2);
  const Matrix whole(8, kIn, 3);
  Linear divided = pack({&top});
  divided.more.push_back(pack({&bottom}).weight);
  const Linear together = pack({&whole});
  LinearGroup group;
  group.add(together);
  group.add(divided);
  const Matrix x(3, kIn, 4);
  const Matrix out(3, 8, 5);
  const std::vector<int32_t> offsets = {0, 1, 3};
  const std::vector<int32_t> rows = {0, 1, 2};
  group.apply_grouped(runner(), out.view, x.view, {.offsets = offsets, .rows = rows, .num_rows = 3});
  for (int64_t n = 0; n < 8; ++n) {
    EXPECT_NEAR(out.at(0, n), dot(x, 0, whole, n), 1e-4);
    for (int64_t r = 1; r < 3; ++r)
      EXPECT_NEAR(out.at(r, n), n < 3 ? dot(x, r, top, n) : dot(x, r, bottom, n - 3), 1e-4);
  }
}

TEST(Rope, QueryScalingLeavesKeysUnchanged) {
  RopeSpec spec;
  spec.rotary_dim = 4;
  spec.scaling = RopeScaling::kQueryScaleOnly;
  spec.query_scale_beta = 0.5;
  spec.query_scale_floor = 3;
  spec.query_scale_offset = 1;
  const Rope rope = make_rope({}, spec, 9);
  Matrix q(9, 4, 1);
  Matrix k(9, 4, 2);
  const Matrix before = q;
  const Matrix keys = k;
  const auto heads = [](Matrix& m) {
    TensorView view = m.view;
    view.shape = Shape{9, 1, 4};
    return view;
  };
  const std::vector<int32_t> positions = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  apply(runner(), rope, heads(q), heads(k), positions);
  for (int64_t p = 0; p < 9; ++p) {
    const double scale = 1 + 0.5 * std::log(1 + std::floor((static_cast<double>(p) + 1) / 3));
    for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(q.at(p, i), scale * before.at(p, i), 1e-5) << p;
  }
  EXPECT_EQ(k.values, keys.values);
}

TEST(Rope, LongRopeSelectsItsFactorsByTheModelLength) {
  RopeSpec spec;
  spec.rotary_dim = 4;
  spec.scaling = RopeScaling::kLongRope;
  spec.original_max_position = 100;
  spec.short_factors = {1.0, 2.0};
  spec.long_factors = {3.0, 4.0};
  spec.attention_factor = 1.25;
  spec.long_attention_factor = 1.5;
  EXPECT_FLOAT_EQ(rope_inverse_frequencies(spec, 100)[1], 0.01F / 2.0F);
  EXPECT_FLOAT_EQ(rope_inverse_frequencies(spec, 101)[1], 0.01F / 4.0F);
  EXPECT_EQ(rope_attention_factor(spec, 100), 1.25);
  EXPECT_EQ(rope_attention_factor(spec, 101), 1.5);
  spec.scaling = RopeScaling::kDynamic;
  spec.factor = 2.0;
  EXPECT_FLOAT_EQ(rope_inverse_frequencies(spec, 50)[1], 0.01F);
  // The base times (2 * 200 / 100 - 1)^(4 / 2).
  EXPECT_FLOAT_EQ(rope_inverse_frequencies(spec, 200)[1], 0.01F / 3.0F);
}

TEST(Rope, HasTheSameBitsInAShorterTable) {
  for (const RopeScaling scaling : {RopeScaling::kNone, RopeScaling::kDynamic, RopeScaling::kLongRope}) {
    RopeSpec spec;
    spec.rotary_dim = 4;
    spec.scaling = scaling;
    spec.factor = 3;
    spec.original_max_position = 50;
    spec.short_factors = {1, 2};
    spec.long_factors = {3, 4};
    spec.query_scale_beta = 0.1;
    spec.query_scale_floor = 8;
    const Rope whole = make_rope({}, spec, 1000);
    const Rope part = make_rope({}, spec, 1000, 70);
    EXPECT_EQ(part.cos_sin.shape, (Shape{70, 4}));
    const size_t bytes = 70 * 4 * sizeof(float);
    EXPECT_EQ(std::memcmp(part.data.data(), whole.data.data(), bytes), 0);
    EXPECT_EQ(std::memcmp(part.query_data.data(), whole.query_data.data(), bytes), 0);
  }
}

TEST(Rope, TableContainsCosinesThenSinesTimesTheAttentionFactor) {
  RopeSpec spec;
  spec.rotary_dim = 6;
  spec.theta = 100.0;
  spec.attention_factor = 1.25;
  const Rope rope = make_rope({}, spec, 9);
  EXPECT_EQ(rope.cos_sin.shape, (Shape{9, 6}));
  for (int64_t p = 0; p < 9; ++p) {
    for (int64_t i = 0; i < 3; ++i) {
      const double angle = static_cast<double>(p) * std::pow(100.0, -2.0 * static_cast<double>(i) / 6.0);
      EXPECT_NEAR(rope.cos_sin.row<float>(p)[i], 1.25 * std::cos(angle), 1e-5);
      EXPECT_NEAR(rope.cos_sin.row<float>(p)[3 + i], 1.25 * std::sin(angle), 1e-5);
    }
  }
}

TEST(Rope, LinearScalingDividesThePosition) {
  RopeSpec spec;
  spec.rotary_dim = 8;
  const auto plain = rope_inverse_frequencies(spec);
  spec.scaling = RopeScaling::kLinear;
  spec.factor = 4.0;
  const auto scaled = rope_inverse_frequencies(spec);
  for (size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(scaled[i], plain[i] / 4.0F);
}

// Two query heads with one KV head; one sequence of three tokens; no RoPE.
TEST(Attention, MatchesSoftmaxOverEarlierTokens) {
  constexpr int64_t kHidden = 6;
  constexpr int32_t kDim = 4;
  const Matrix wq(2 * kDim, kHidden, 1);
  const Matrix wk(kDim, kHidden, 2);
  const Matrix wv(kDim, kHidden, 3);
  const Matrix wo(kHidden, 2 * kDim, 4);
  const Matrix x(3, kHidden, 5);
  Matrix hidden(3, kHidden, 6);
  const Matrix before = hidden;
  Attention attention(
      {.num_heads = 2, .num_kv_heads = 1, .head_dim = kDim, .value_dim = kDim, .params = {.scale = 0.5F}});
  attention.qkv_proj = pack({&wq, &wk, &wv});
  attention.o_proj = pack({&wo});

  Buffer pool(static_cast<size_t>(kv_bytes_per_block(DType::kF32, 2, 1, kDim) * 3));
  const KvCacheView cache{pool.data(), kv_bytes_per_block(DType::kF32, 2, 1, kDim), 0, DType::kF32, 2, 1,
                          kDim};
  const std::vector<int32_t> tokens = {0, 0, 0};
  const std::vector<int32_t> positions = {0, 1, 2};
  const std::vector<int64_t> slots = {4, 5, 0};
  const std::vector<int32_t> cu = {0, 3};
  const std::vector<int32_t> lens = {3};
  const std::vector<int32_t> indptr = {0, 2};
  const std::vector<int32_t> blocks = {2, 0};
  ForwardBatch batch;
  batch.token_ids = tokens;
  batch.positions = positions;
  batch.slot_mapping = slots;
  batch.attention = {1, cu, lens, indptr, blocks};
  Buffer workspace(reference_ops().workspace_bytes(3, 3, 2, kDim, 1));
  const OpContext ctx{nullptr, {workspace.data(), workspace.size()}};
  test::forward(OpRunner{checked_ops(), ctx}, attention, hidden.view, x.view, batch, cache);

  for (int64_t r = 0; r < 3; ++r) {
    std::vector<double> mixed;
    for (int64_t h = 0; h < 2; ++h) {
      std::vector<double> weight;
      double sum = 0.0;
      for (int64_t t = 0; t <= r; ++t) {
        double score = 0.0;
        for (int64_t d = 0; d < kDim; ++d) score += dot(x, r, wq, h * kDim + d) * dot(x, t, wk, d);
        weight.push_back(std::exp(0.5 * score));
        sum += weight.back();
      }
      for (int64_t d = 0; d < kDim; ++d) {
        double value = 0.0;
        for (int64_t t = 0; t <= r; ++t) value += weight[static_cast<size_t>(t)] / sum * dot(x, t, wv, d);
        mixed.push_back(value);
      }
    }
    for (int64_t n = 0; n < kHidden; ++n) {
      double expected = before.values[static_cast<size_t>(r * kHidden + n)];
      for (int64_t i = 0; i < 2 * kDim; ++i) expected += wo.at(n, i) * mixed[static_cast<size_t>(i)];
      EXPECT_NEAR(hidden.at(r, n), expected, 1e-4);
    }
  }
}

// y = W_up W_down x, [rows, columns].
Matrix low_rank(const Matrix& x, const Matrix& down, const Matrix& up) {
  Matrix inner(x.view.rows(), down.view.rows(), 1);
  Matrix out(x.view.rows(), up.view.rows(), 1);
  for (int64_t r = 0; r < x.view.rows(); ++r) {
    for (int64_t i = 0; i < down.view.rows(); ++i)
      inner.view.row<float>(r)[i] = static_cast<float>(dot(x, r, down, i));
    for (int64_t i = 0; i < up.view.rows(); ++i)
      out.view.row<float>(r)[i] = static_cast<float>(dot(inner, r, up, i));
  }
  return out;
}

TEST(SharedBlock, AdaptersAddALowRankProductToEachPart) {
  const Matrix x(3, 6, 1);
  const Matrix down_a(2, 6, 2);
  const Matrix down_b(2, 6, 3);
  const Matrix up_a(4, 2, 4);
  const Matrix up_b(5, 2, 5);
  Matrix out(3, 9, 6);
  const Matrix before = out;
  Adapter adapter;
  adapter.down = pack({&down_a, &down_b});
  adapter.up.push_back(pack({&up_a}));
  adapter.up.push_back(pack({&up_b}));
  Matrix low(5, 7, 7);  // larger than it needs
  add(runner(), adapter, out.view, x.view, low.view);
  const Matrix first = low_rank(x, down_a, up_a);
  const Matrix second = low_rank(x, down_b, up_b);
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t i = 0; i < 9; ++i)
      EXPECT_NEAR(out.at(r, i), before.at(r, i) + (i < 4 ? first.at(r, i) : second.at(r, i - 4)), 1e-4);
  }
}

}  // namespace
}  // namespace quire
