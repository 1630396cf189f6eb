// Recurrent layers, each against its equation in plain loops: one sequence of four tokens, the first of which
// is in an earlier step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "nn/delta_net_spec.h"
#include "nn/mamba_spec.h"
#include "nn/short_conv_spec.h"
#include "unit/nn/nn_testing.h"

namespace quire {
namespace {

using test::dot;
using test::GivenWeights;
using test::Matrix;
using test::runner;
using test::silu;

using Rows = std::vector<std::vector<double>>;

constexpr int64_t kTokens = 4;
constexpr int64_t kRecurrentHidden = 6;

double softplus(double x) {
  return std::log1p(std::exp(x));
}
double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

// A vector with these numbers.
Matrix numbers(const std::vector<float>& values) {
  Matrix out(1, static_cast<int64_t>(values.size()), 0);
  std::copy(values.begin(), values.end(), out.values.begin());
  return out;
}

// Rows [begin, end) of m.
Matrix rows_of(const Matrix& m, int64_t begin, int64_t end) {
  const int64_t columns = m.view.shape[1];
  Matrix out(end - begin, columns, 0);
  std::copy_n(m.values.begin() + begin * columns, out.values.size(), out.values.begin());
  return out;
}

// Runs two steps through the layer. Returns its output for each row of x, with the residual added.
template <typename Spec>
Matrix run(const Spec& spec, GivenWeights weights, const Matrix& x) {
  const auto layer = make_mixer(spec);
  layer->visit({kRecurrentHidden}, weights);
  const RecurrentSizes sizes = spec.recurrent();
  const int64_t part = (std::max(sizes.inputs(), sizes.head_state) + 15) / 16 * 16;
  std::vector<StatePlace> parts;
  for (int32_t i = 0; i <= sizes.heads; ++i) parts.push_back({0, i * part * 4});
  std::vector<float> pool(static_cast<size_t>(part * (sizes.heads + 1)), std::nanf(""));
  auto* base = reinterpret_cast<std::byte*>(pool.data());
  const LayerState state = {{base, 0, std::span(parts).first(1)}, {base, 0, std::span(parts).subspan(1)}};
  Matrix out = x;
  for (const auto& [from, to] : {std::pair<int32_t, int32_t>{0, 1}, {1, static_cast<int32_t>(kTokens)}}) {
    const std::vector<int32_t> cu = {0, to - from};
    const std::vector<int32_t> first = {from};
    const std::vector<int32_t> block = {0};
    ForwardBatch batch;
    batch.states = {1, cu, first, block, 1};
    const TensorView rows = row_slice(out.view, from, to);
    test::forward(runner(), *layer, rows, row_slice(x.view, from, to), batch, {}, state);
  }
  return out;
}

Rows project(const Matrix& x, const Matrix& w) {
  Rows rows(kTokens);
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t i = 0; i < w.view.shape[0]; ++i) rows[static_cast<size_t>(t)].push_back(dot(x, t, w, i));
  }
  return rows;
}

// Column `c` of the inputs at token t, with the tokens before it.
double convolve(const Rows& inputs, const Matrix& weight, size_t t, size_t c, size_t column) {
  double sum = 0.0;
  const auto conv_kernel = static_cast<size_t>(weight.view.shape[1]);
  for (size_t j = 0; j < conv_kernel; ++j) {
    if (t + j + 1 >= conv_kernel)
      sum += weight.at(static_cast<int64_t>(c), static_cast<int64_t>(j)) *
             inputs[t + j + 1 - conv_kernel][column];
  }
  return sum;
}

void expect_rows(const Matrix& got, const Matrix& x, const Rows& mixed, const Matrix& out) {
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t n = 0; n < kRecurrentHidden; ++n) {
      double want = x.at(t, n);
      for (size_t i = 0; i < mixed[static_cast<size_t>(t)].size(); ++i)
        want += out.at(n, static_cast<int64_t>(i)) * mixed[static_cast<size_t>(t)][i];
      EXPECT_NEAR(got.at(t, n), want, 1e-4) << "token " << t;
    }
  }
}

TEST(ShortConv, GatesBeforeAndAfterTheConvolution) {
  constexpr size_t kChannels = 5;
  const Matrix in(3 * kChannels, kRecurrentHidden, 1);
  const Matrix weight(kChannels, 3, 2);
  const Matrix bias(1, kChannels, 3);
  const Matrix out(kRecurrentHidden, kChannels, 4);
  const Matrix x(kTokens, kRecurrentHidden, 5);
  const Rows projected = project(x, in);
  Rows inputs = projected;
  Rows mixed(kTokens);
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t c = 0; c < kChannels; ++c) inputs[t][c] = projected[t][c] * projected[t][2 * kChannels + c];
    for (size_t c = 0; c < kChannels; ++c)
      mixed[t].push_back(projected[t][kChannels + c] * (bias.values[c] + convolve(inputs, weight, t, c, c)));
  }
  const GivenWeights weights({{recurrent::kInProj.name, {in}},
                              {recurrent::kConv1d.name, {weight}},
                              {recurrent::kOutProj.name, {out}}},
                             {{recurrent::kConv1d.name, {bias}}});
  const ShortConvSpec spec{.channels = kChannels, .conv_kernel = 3, .bias = true};
  expect_rows(run(spec, weights, x), x, mixed, out);
}

// Two heads of three dimensions that share B and C.
TEST(Mamba, MatchesTheRecurrence) {
  constexpr size_t kHeads = 2;
  constexpr size_t kDim = 3;
  constexpr size_t kInner = kHeads * kDim;
  constexpr size_t kState = 4;
  MambaSpec spec{.heads = kHeads,
                 .head_dim = kDim,
                 .groups = 1,
                 .state = kState,
                 .conv_kernel = 3,
                 .norm = false,
                 .norm_eps = 1e-5F};
  const Matrix in(spec.projected(), kRecurrentHidden, 1);
  const Matrix weight(spec.channels(), 3, 2);
  const Matrix bias(1, spec.channels(), 3);
  const Matrix out(kRecurrentHidden, kInner, 4);
  const Matrix norm(1, kInner, 6);
  const Matrix x(kTokens, kRecurrentHidden, 5);
  const Matrix dt_bias = numbers({0.3F, -0.2F});
  const Matrix A_log = numbers({-0.7F, 0.1F});
  const Matrix D = numbers({0.7F, 1.1F});
  const GivenWeights weights({{recurrent::kInProj.name, {in}},
                              {recurrent::kConv1d.name, {weight}},
                              {recurrent::kDtBias.name, {dt_bias}},
                              {recurrent::kALog.name, {A_log}},
                              {recurrent::kD.name, {D}},
                              {recurrent::kNorm.name, {norm}},
                              {recurrent::kOutProj.name, {out}}},
                             {{recurrent::kConv1d.name, {bias}}});
  const Rows projected = project(x, in);
  Rows mixed(kTokens, std::vector<double>(kInner));
  double state[kHeads][kState][kDim] = {};
  for (size_t t = 0; t < kTokens; ++t) {
    const auto conv = [&](size_t c) {
      return silu(bias.values[c] + convolve(projected, weight, t, c, kInner + c));
    };
    for (size_t h = 0; h < kHeads; ++h) {
      const double step = softplus(projected[t][2 * kInner + 2 * kState + h] + dt_bias.values[h]);
      const double decay = std::exp(-step * std::exp(A_log.values[h]));
      for (size_t p = 0; p < kDim; ++p) {
        const double value = conv(h * kDim + p);
        double sum = D.values[h] * value;
        for (size_t n = 0; n < kState; ++n) {
          double& s = state[h][n][p];
          s = decay * s + step * value * conv(kInner + n);
          sum += s * conv(kInner + kState + n);
        }
        mixed[t][h * kDim + p] = sum * silu(projected[t][h * kDim + p]);
      }
    }
  }
  expect_rows(run(spec, weights, x), x, mixed, out);

  // With a norm after the gate.
  spec.norm = true;
  for (auto& row : mixed) {
    double squares = 0.0;
    for (const double v : row) squares += v * v;
    for (size_t i = 0; i < kInner; ++i) row[i] *= norm.values[i] / std::sqrt(squares / double{kInner} + 1e-5);
  }
  expect_rows(run(spec, weights, x), x, mixed, out);
}

// Two value heads that share a key head.
TEST(DeltaNet, MatchesTheDeltaRule) {
  constexpr size_t kKey = 3;
  constexpr size_t kValue = 4;
  constexpr size_t kValues = 2 * kValue;
  const DeltaNetSpec spec{.key_heads = 1,
                          .value_heads = 2,
                          .key_dim = kKey,
                          .value_dim = kValue,
                          .conv_kernel = 2,
                          .norm_eps = 1e-6F};
  constexpr int64_t kChannels = 2 * kKey + kValues;
  const Matrix in(kChannels + kValues, kRecurrentHidden, 1);
  const Matrix steps(4, kRecurrentHidden, 2);
  const Matrix weight(kChannels, 2, 3);
  const Matrix norm(1, kValue, 4);
  const Matrix out(kRecurrentHidden, kValues, 5);
  const Matrix x(kTokens, kRecurrentHidden, 6);
  const Matrix dt_bias = numbers({0.3F, -0.2F});
  const Matrix A_log = numbers({-0.7F, 0.1F});
  const GivenWeights weights({{delta_net::kQProj.name, {rows_of(in, 0, kKey)}},
                              {delta_net::kKProj.name, {rows_of(in, kKey, 2 * kKey)}},
                              {delta_net::kVProj.name, {rows_of(in, 2 * kKey, kChannels)}},
                              {recurrent::kGProj.name, {rows_of(in, kChannels, kChannels + kValues)}},
                              {delta_net::kBProj.name, {rows_of(steps, 0, 2)}},
                              {delta_net::kAProj.name, {rows_of(steps, 2, 4)}},
                              {delta_net::kQConv1d.name, {rows_of(weight, 0, kKey)}},
                              {delta_net::kKConv1d.name, {rows_of(weight, kKey, 2 * kKey)}},
                              {delta_net::kVConv1d.name, {rows_of(weight, 2 * kKey, kChannels)}},
                              {recurrent::kDtBias.name, {dt_bias}},
                              {recurrent::kALog.name, {A_log}},
                              {recurrent::kNorm.name, {norm}},
                              {recurrent::kOutProj.name, {out}}});
  const Rows projected = project(x, in);
  const Rows small = project(x, steps);
  Rows mixed(kTokens, std::vector<double>(kValues));
  double state[2][kKey][kValue] = {};
  for (size_t t = 0; t < kTokens; ++t) {
    std::vector<double> conv;
    for (size_t c = 0; c < 2 * kKey + kValues; ++c)
      conv.push_back(silu(convolve(projected, weight, t, c, c)));
    const auto length = [&](size_t begin) {
      double squares = 1e-6;
      for (size_t i = 0; i < kKey; ++i) squares += conv[begin + i] * conv[begin + i];
      return std::sqrt(squares);
    };
    const double query_scale_floor = length(0) * std::sqrt(double{kKey});
    const double key_length = length(kKey);
    for (size_t h = 0; h < 2; ++h) {
      const double share = sigmoid(small[t][h]);
      const double decay =
          std::exp(-std::exp(A_log.values[h]) * softplus(small[t][2 + h] + dt_bias.values[h]));
      std::vector<double> result(kValue);
      double squares = 0.0;
      for (size_t v = 0; v < kValue; ++v) {
        double known = 0.0;
        for (size_t k = 0; k < kKey; ++k) {
          state[h][k][v] *= decay;
          known += conv[kKey + k] / key_length * state[h][k][v];
        }
        const double error = share * (conv[2 * kKey + h * kValue + v] - known);
        for (size_t k = 0; k < kKey; ++k) {
          state[h][k][v] += conv[kKey + k] / key_length * error;
          result[v] += conv[k] / query_scale_floor * state[h][k][v];
        }
        squares += result[v] * result[v];
      }
      for (size_t v = 0; v < kValue; ++v) {
        const double gate = silu(projected[t][2 * kKey + kValues + h * kValue + v]);
        mixed[t][h * kValue + v] =
            result[v] / std::sqrt(squares / double{kValue} + 1e-6) * norm.values[v] * gate;
      }
    }
  }
  expect_rows(run(spec, weights, x), x, mixed, out);
}

}  // namespace
}  // namespace quire
