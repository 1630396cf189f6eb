#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "op_testing.h"
#include "ops/reference.h"

namespace quire {
namespace {

using test::expect_near;
using test::fast_isas;
using test::random_tensor;
using test::same_row;
using test::same_rows;
using test::TestContext;
using test::TestTensor;
using test::usable_isas;

constexpr Activation kRowActivations[] = {
    Activation::kSilu,           Activation::kGelu,         Activation::kGeluTanh, Activation::kRelu,
    Activation::kReluSquared,    Activation::kClampedSwish, Activation::kSigmoid,  Activation::kSoftplus,
    Activation::kUnclampedSwish, Activation::kNone};
constexpr int64_t kSizes[] = {1, 7, 16, 33, 64, 100, 500, 2048};

// Each op on rows must give the same bits for a row alone and in a batch, for any number of threads and,
// above the generic level, for any instruction set. It must match the reference within `absolute` +
// `relative`.
void check_row_op(int64_t in_size, int64_t out_size, float absolute, float relative,
                  const std::function<void(const OpTable&, const OpContext&, const TensorView& out,
                                           const TensorView& x, int64_t first_row)>& run) {
  const int64_t rows = 37;
  const TestTensor x = random_tensor(DType::kF32, {rows, in_size}, 21, 3, 2.0F);
  const TestTensor want(DType::kF32, {rows, out_size}, 1);
  run(reference_ops(), TestContext(reference_ops()), want, x, 0);
  std::vector<TestTensor> results;
  for (const CpuIsa& isa : usable_isas()) {
    SCOPED_TRACE(std::string(isa.name) + ", row size " + std::to_string(in_size));
    const TestTensor out(DType::kF32, {rows, out_size}, 2);
    run(*isa.table, TestContext(*isa.table), out, x, 0);
    expect_near(out, want, absolute, relative, "against the reference");
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = out_size; i < out.view().row_stride; ++i) ASSERT_TRUE(std::isnan(out.get(r, i)));
      const TestTensor alone(DType::kF32, {1, out_size});
      run(*isa.table, TestContext(*isa.table), alone, row_slice(x, r, r + 1), r);
      ASSERT_TRUE(same_row(alone, 0, out, r)) << "row " << r << " alone";
    }
    const TestTensor threaded(DType::kF32, {rows, out_size});
    run(*isa.table, TestContext(*isa.table, 3), threaded, x, 0);
    EXPECT_TRUE(same_rows(threaded, out)) << "three threads";
    if (isa.name != "generic") results.push_back(out);
  }
  for (size_t i = 1; i < results.size(); ++i)
    EXPECT_TRUE(same_rows(results[0], results[i])) << "instruction sets differ";
}

void copy_rows(const TensorView& out, const TensorView& x) {
  for (int64_t r = 0; r < x.rows(); ++r) std::copy_n(x.row<float>(r), x.row_size(), out.row<float>(r));
}

TEST(RmsNorm, MatchesTheReference) {
  for (const int64_t d : kSizes) {
    for (const float offset : {0.0F, 1.0F}) {
      const TestTensor weight = random_tensor(DType::kF32, {1, d}, 22);
      const TensorView w = make_view(weight.view().data, DType::kF32, {d});
      check_row_op(
          d, d, 1e-6F, 3e-6F,
          [&](const auto& table, const auto& ctx, const auto& out, const auto& x, int64_t) {
            table.run(ctx,
                      ops::RmsNorm{.out = out, .x = x, .weight = w, .eps = 1e-5F, .weight_offset = offset});
          });
      // In place.
      check_row_op(
          d, d, 1e-6F, 3e-6F,
          [&](const auto& table, const auto& ctx, const auto& out, const auto& x, int64_t) {
            copy_rows(out, x);
            table.run(ctx,
                      ops::RmsNorm{.out = out, .x = out, .weight = w, .eps = 1e-5F, .weight_offset = offset});
          });
    }
  }
}

TEST(RmsNorm, NormalizesEachHeadSeparately) {
  const TestTensor weight = random_tensor(DType::kF32, {1, 24}, 23);
  const TensorView w = make_view(weight.view().data, DType::kF32, {24});
  const TestTensor x = random_tensor(DType::kF32, {5, 3, 24}, 24, 7);
  for (const CpuIsa& isa : usable_isas()) {
    const TestContext ctx(*isa.table, 2);
    const TestTensor out(DType::kF32, {5, 3, 24});
    isa.table->run(ctx, ops::RmsNorm{.out = out, .x = x, .weight = w, .eps = 1e-6F});
    for (int64_t r = 0; r < 5; ++r) {
      for (int64_t h = 0; h < 3; ++h) {
        double squares = 0;
        for (int64_t i = 0; i < 24; ++i)
          squares += double{x.get(r, h * 24 + i)} * double{x.get(r, h * 24 + i)};
        for (int64_t i = 0; i < 24; ++i) {
          const double want =
              x.get(r, h * 24 + i) / std::sqrt(squares / 24 + 1e-6) * double{weight.get(0, i)};
          ASSERT_NEAR(out.get(r, h * 24 + i), want, 1e-5) << isa.name;
        }
      }
    }
  }
}

TEST(LayerNorm, MatchesTheReference) {
  for (const int64_t d : kSizes) {
    const TestTensor weight = random_tensor(DType::kF32, {1, d}, 25);
    const TestTensor bias = random_tensor(DType::kF32, {1, d}, 26);
    for (const bool with_bias : {false, true}) {
      const TensorView w = make_view(weight.view().data, DType::kF32, {d});
      const TensorView b = with_bias ? make_view(bias.view().data, DType::kF32, {d}) : TensorView{};
      check_row_op(d, d, 4e-6F, 4e-6F,
                   [&](const auto& table, const auto& ctx, const auto& out, const auto& x, int64_t) {
                     table.run(ctx, ops::LayerNorm{.out = out, .x = x, .weight = w, .bias = b, .eps = 1e-5F});
                   });
    }
  }
}

TEST(Rope, MatchesTheReference) {
  struct Case {
    int64_t heads, head_dim, rotary_dim;
  };
  for (const Case& c : {Case{1, 8, 8}, Case{3, 64, 64}, Case{2, 80, 32}, Case{4, 128, 128}, Case{2, 20, 18},
                        Case{1, 96, 90}}) {
    const TestTensor cos_sin = random_tensor(DType::kF32, {50, c.rotary_dim}, 27, 2);
    std::vector<int32_t> positions;
    for (int32_t r = 0; r < 37; ++r) positions.push_back((r * 29) % 50);
    for (const RopeStyle style : {RopeStyle::kNeox, RopeStyle::kInterleaved}) {
      const int64_t size = c.heads * c.head_dim;
      // cos and sin are not of the same angle, so that swapped elements are detected.
      check_row_op(
          size, size, 2e-6F, 2e-6F,
          [&](const auto& table, const auto& ctx, const auto& out, const auto& x, int64_t first) {
            copy_rows(out, x);
            TensorView heads = make_view(out.data, DType::kF32, {out.rows(), c.heads, c.head_dim});
            heads.row_stride = out.row_stride;
            const std::span<const int32_t> own(positions.data() + first, static_cast<size_t>(out.rows()));
            table.run(ctx, ops::Rope{.x = heads, .positions = own, .cos_sin = cos_sin, .style = style});
          });
    }
  }
}

TEST(Rope, RotatesThePairsOfItsStyle) {
  TestTensor cos_sin(DType::kF32, {1, 4});
  const float values[] = {0.6F, 0.0F, 0.8F, 1.0F};  // two angles: (0.6, 0.8) and (0, 1)
  for (int i = 0; i < 4; ++i) cos_sin.set(0, i, values[i]);
  const std::vector<int32_t> position = {0};
  for (const CpuIsa& isa : usable_isas()) {
    const auto turn = [&](RopeStyle style) {
      TestTensor x(DType::kF32, {1, 1, 5});
      for (int i = 0; i < 5; ++i) x.set(0, i, static_cast<float>(i + 1));
      isa.table->run(TestContext(*isa.table),
                     ops::Rope{.x = x, .positions = position, .cos_sin = cos_sin, .style = style});
      return std::vector<float>{x.get(0, 0), x.get(0, 1), x.get(0, 2), x.get(0, 3), x.get(0, 4)};
    };
    const std::vector<float> halves = turn(RopeStyle::kNeox);
    const std::vector<float> want_halves = {0.6F * 1 - 0.8F * 3, -4, 0.6F * 3 + 0.8F * 1, 2, 5};
    const std::vector<float> pairs = turn(RopeStyle::kInterleaved);
    const std::vector<float> want_pairs = {0.6F * 1 - 0.8F * 2, 0.6F * 2 + 0.8F * 1, -4, 3, 5};
    for (size_t i = 0; i < 5; ++i) {
      EXPECT_NEAR(halves[i], want_halves[i], 1e-6) << isa.name << " " << i;
      EXPECT_NEAR(pairs[i], want_pairs[i], 1e-6) << isa.name << " " << i;
    }
  }
}

TEST(GatedActivation, MatchesTheReference) {
  for (const Activation act : kRowActivations) {
    for (const int64_t d : kSizes) {
      check_row_op(2 * d, d, 2e-6F, 1e-6F,
                   [&](const auto& table, const auto& ctx, const auto& out, const auto& x, int64_t) {
                     table.run(ctx, ops::GatedActivation{.out = out, .gate_up = x, .activation = act});
                   });
    }
  }
}

TEST(ActivationOp, MatchesTheReference) {
  for (const Activation act : kRowActivations) {
    for (const int64_t d : kSizes) {
      check_row_op(d, d, 1e-6F, 1e-6F,
                   [&](const auto& table, const auto& ctx, const auto& out, const auto& x, int64_t) {
                     copy_rows(out, x);
                     table.run(ctx, ops::Activate{.x = out, .activation = act});
                   });
    }
  }
}

TEST(ActivationOp, IsAccurateOverTheWholeRange) {
  // The documented error bound: 3e-7 times the magnitude of the input (at threshold 1), compared with
  // float64.
  const auto exact = [](double x, Activation act) {
    switch (act) {
      case Activation::kSilu:
        return x / (1.0 + std::exp(-x));
      case Activation::kGelu:
        return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
      case Activation::kGeluTanh:
        return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
      case Activation::kRelu:
        return x < 0 ? 0 : x;
      case Activation::kReluSquared:
        return x < 0 ? 0 : x * x;
      case Activation::kClampedSwish:
        return std::min(x, 7.0) / (1.0 + std::exp(-1.702 * std::min(x, 7.0)));
      case Activation::kUnclampedSwish:
        return x / (1.0 + std::exp(-1.702 * x));
      case Activation::kSigmoid:
        return 1.0 / (1.0 + std::exp(-x));
      case Activation::kSoftplus:
        return std::max(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
      case Activation::kNone:
        return x;
    }
    return x;
  };
  std::vector<float> inputs;
  for (float v = -100.0F; v <= 100.0F; v += 0.0107F) inputs.push_back(v);
  for (const float v : {0.0F, -0.0F, 1e-30F, -1e-30F, 1e30F, -1e30F}) inputs.push_back(v);
  for (const CpuIsa& isa : usable_isas()) {
    for (const Activation act : kRowActivations) {
      std::vector<float> values = inputs;
      const TensorView view = make_view(values.data(), DType::kF32, {1, static_cast<int64_t>(values.size())});
      isa.table->run(TestContext(*isa.table), ops::Activate{.x = view, .activation = act});
      for (size_t i = 0; i < values.size(); ++i) {
        const double size = act == Activation::kReluSquared ? exact(inputs[i], act) : double{inputs[i]};
        if (size > 1e38) continue;
        const double bound = 3e-7 * std::max(1.0, std::fabs(size));
        ASSERT_NEAR(values[i], exact(inputs[i], act), bound)
            << isa.name << ", activation " << static_cast<int>(act) << " of " << inputs[i];
      }
    }
  }
}

TEST(ActivationOp, KeepsNaN) {
  for (const CpuIsa& isa : usable_isas()) {
    for (const Activation act : kRowActivations) {
      std::vector<float> values(20, test::kNaN);
      isa.table->run(TestContext(*isa.table),
                     ops::Activate{.x = make_view(values.data(), DType::kF32, {1, 20}), .activation = act});
      for (const float v : values) EXPECT_TRUE(std::isnan(v)) << isa.name;
    }
  }
}

TEST(ScaleSoftcap, MatchesTheReference) {
  for (const int64_t d : kSizes) {
    for (const float cap : {0.0F, 1.5F, 30.0F}) {
      check_row_op(d, d, 1e-6F, 6e-7F,
                   [&](const auto& table, const auto& ctx, const auto& out, const auto& x, int64_t) {
                     copy_rows(out, x);
                     table.run(ctx, ops::ScaleSoftcap{.x = out, .scale = 1.7F, .cap = cap});
                   });
    }
  }
}

TEST(ScaleSoftcap, TanhIsAccurateToAFewUlp) {
  std::vector<float> inputs;
  for (float v = 1e-6F; v < 20.0F; v *= 1.0007F) {
    inputs.push_back(v);
    inputs.push_back(-v);
  }
  for (const CpuIsa& isa : usable_isas()) {
    std::vector<float> values = inputs;
    const auto n = static_cast<int64_t>(values.size());
    isa.table->run(
        TestContext(*isa.table),
        ops::ScaleSoftcap{.x = make_view(values.data(), DType::kF32, {1, n}), .scale = 1.0F, .cap = 1.0F});
    for (size_t i = 0; i < values.size(); ++i) {
      const double want = std::tanh(double{inputs[i]});
      ASSERT_NEAR(values[i], want, 3 * 6e-8 * std::fabs(want)) << isa.name << ", tanh " << inputs[i];
    }
  }
}

TEST(Xielu, MatchesItsDefinition) {
  const XieluParams params = {.positive = 0.8F, .negative = 1.3F, .slope = 0.5F, .limit = -1e-6F};
  const std::vector<float> inputs = {-30.0F, -3.0F, -0.5F, -1e-7F, 0.0F, 0.25F, 4.0F};
  for (const CpuIsa& isa : usable_isas()) {
    std::vector<float> values = inputs;
    isa.table->run(TestContext(*isa.table),
                   ops::Xielu{.x = make_view(values.data(), DType::kF32, {1, 7}), .params = params});
    for (size_t i = 0; i < values.size(); ++i) {
      const double x = inputs[i];
      const double want = 0.5 * x + (x > 0 ? 0.8 * x * x : 1.3 * (std::expm1(std::min(x, -1e-6)) - x));
      EXPECT_NEAR(values[i], want, 1e-6 * std::max(1.0, std::fabs(want))) << isa.name << " of " << x;
    }
  }
}

TEST(Clamp, ClampsToTheRange) {
  const std::vector<float> inputs = {-9.0F, -2.0F, -0.5F, 0.0F, 3.0F, 3.5F};
  const std::vector<float> want = {-2.0F, -2.0F, -0.5F, 0.0F, 3.0F, 3.0F};
  for (const CpuIsa& isa : usable_isas()) {
    std::vector<float> values = inputs;
    isa.table->run(
        TestContext(*isa.table),
        ops::Clamp{.x = make_view(values.data(), DType::kF32, {1, 6}), .low = -2.0F, .high = 3.0F});
    EXPECT_EQ(values, want) << isa.name;
  }
}

TEST(GaussianTopk, KeepsValuesFarAboveTheMean) {
  const std::vector<float> inputs = {-2.0F, 0.5F, 1.0F, 4.5F, 6.0F};  // mean 2, deviation sqrt(8.3)
  for (const CpuIsa& isa : usable_isas()) {
    std::vector<float> values = inputs;
    isa.table->run(
        TestContext(*isa.table),
        ops::GaussianTopk{.x = make_view(values.data(), DType::kF32, {1, 5}), .std_multiplier = 0.75F});
    const double threshold = 2.0 + 0.75 * std::sqrt(8.3);
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], std::max(0.0, inputs[i] - threshold), 1e-6) << isa.name << " of " << inputs[i];
  }
}

TEST(MatchRms, ScalesRowsToTheRmsOfOthers) {
  std::vector<float> like = {3.0F, -4.0F, 1.0F, 7.0F};
  for (const CpuIsa& isa : usable_isas()) {
    std::vector<float> values = {0.5F, 0.5F, 1e-4F, 0.0F};
    isa.table->run(TestContext(*isa.table),
                   ops::MatchRms{.x = make_view(values.data(), DType::kF32, {2, 2}),
                                 .target = make_view(like.data(), DType::kF32, {2, 2}),
                                 .min_mean_square = 1e-5F});
    EXPECT_NEAR(values[0], std::sqrt(12.5), 1e-6) << isa.name;
    EXPECT_NEAR(values[1], std::sqrt(12.5), 1e-6) << isa.name;
    // A row that is too small is scaled as if its mean square were the threshold.
    EXPECT_NEAR(values[2], 1e-4 * std::sqrt(25.0 / 1e-5), 1e-5) << isa.name;
    EXPECT_EQ(values[3], 0.0F) << isa.name;
  }
}

TEST(Add, AddsRows) {
  for (const int64_t d : kSizes) {
    const TestTensor y = random_tensor(DType::kF32, {37, d}, 28, 1);
    check_row_op(d, d, 0.0F, 0.0F,
                 [&](const auto& table, const auto& ctx, const auto& out, const auto& x, int64_t first) {
                   copy_rows(out, x);
                   table.run(ctx, ops::Add{.x = out, .y = row_slice(y, first, first + x.rows())});
                 });
  }
}

TEST(GatherRows, CopiesTheGivenRows) {
  const TestTensor x = random_tensor(DType::kF32, {9, 45}, 29, 2);
  const std::vector<int32_t> rows = {8, 0, 3, 3, 7};
  for (const CpuIsa& isa : usable_isas()) {
    const TestTensor out(DType::kF32, {5, 45}, 1);
    isa.table->run(TestContext(*isa.table, 2), ops::GatherRows{.out = out, .x = x, .rows = rows});
    for (size_t r = 0; r < rows.size(); ++r) {
      EXPECT_TRUE(same_row(out, static_cast<int64_t>(r), x, rows[r])) << isa.name;
    }
  }
}

}  // namespace
}  // namespace quire
