// Layers that carry a state, each against its equation written out: one sequence of four tokens, of which the
// first came in an earlier step.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "nn/delta_net.h"
#include "nn/mamba.h"
#include "nn/short_conv.h"
#include "unit/nn/nn_testing.h"

namespace quire {
namespace {

using test::dot;
using test::Matrix;
using test::pack;
using test::silu;
using test::vector_of;

using Rows = std::vector<std::vector<double>>;

constexpr int64_t kTokens = 4;
constexpr int64_t kHidden = 6;

double softplus(double x) {
  return std::log1p(std::exp(x));
}
double sigmoid(double x) {
  return 1.0 / (1.0 + std::exp(-x));
}

Buffer vector_of(const Matrix& m) {
  return vector_of(m.values);
}

CausalConv make_conv(const Matrix& weight, const Matrix* bias, Activation activation) {
  CausalConv conv;
  conv.taps = weight.view.shape[0];
  conv.channels = weight.view.shape[1];
  conv.weight = vector_of(weight);
  if (bias != nullptr) conv.bias = vector_of(*bias);
  conv.activation = activation;
  return conv;
}

// Two steps through the layer: the tokens' rows of x, then what came out, with the residual added.
template <typename Layer>
Matrix run(const Layer& layer, const Matrix& x) {
  const RecurrentSizes sizes = layer.sizes.recurrent();
  const int64_t part = (std::max(sizes.inputs(), sizes.head_state) + 15) / 16 * 16;
  std::vector<StatePlace> places;
  for (int32_t i = 0; i <= sizes.heads; ++i) places.push_back({0, i * part * 4});
  std::vector<float> pool(static_cast<size_t>(part * (sizes.heads + 1)), std::nanf(""));
  auto* base = reinterpret_cast<std::byte*>(pool.data());
  const LayerState state = {{base, 0, std::span(places).first(1)}, {base, 0, std::span(places).subspan(1)}};
  std::vector<float> memory(static_cast<size_t>(recurrent_scratch_size(sizes, kTokens)));
  const RecurrentScratch scratch = make_recurrent_scratch(sizes, kTokens, memory.data());
  Matrix out = x;
  for (const auto& [from, to] : {std::pair<int32_t, int32_t>{0, 1}, {1, static_cast<int32_t>(kTokens)}}) {
    const std::vector<int32_t> cu = {0, to - from};
    const std::vector<int32_t> first = {from};
    const std::vector<int32_t> block = {0};
    ForwardBatch batch;
    batch.states = {1, cu, first, block, 1};
    const TensorView rows = row_slice(out.view, from, to);
    apply(reference_ops(), {}, layer, rows, row_slice(x.view, from, to), rows, batch, state, scratch);
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
  const auto taps = static_cast<size_t>(weight.view.shape[0]);
  for (size_t j = 0; j < taps; ++j) {
    if (t + j + 1 >= taps)
      sum += weight.at(static_cast<int64_t>(j), static_cast<int64_t>(c)) * inputs[t + j + 1 - taps][column];
  }
  return sum;
}

void expect_rows(const Matrix& got, const Matrix& x, const Rows& mixed, const Matrix& out) {
  for (int64_t t = 0; t < kTokens; ++t) {
    for (int64_t n = 0; n < kHidden; ++n) {
      double want = x.at(t, n);
      for (size_t i = 0; i < mixed[static_cast<size_t>(t)].size(); ++i)
        want += out.at(n, static_cast<int64_t>(i)) * mixed[static_cast<size_t>(t)][i];
      EXPECT_NEAR(got.at(t, n), want, 1e-4) << "token " << t;
    }
  }
}

TEST(ShortConv, GatesBeforeAndBehindTheConvolution) {
  constexpr size_t kChannels = 5;
  const Matrix in(3 * kChannels, kHidden, 1);
  const Matrix weight(3, kChannels, 2);
  const Matrix bias(1, kChannels, 3);
  const Matrix out(kHidden, kChannels, 4);
  const Matrix x(kTokens, kHidden, 5);
  ShortConv layer;
  layer.sizes = {kChannels, 3};
  layer.in = pack({&in});
  layer.conv = make_conv(weight, &bias, Activation::kNone);
  layer.out = pack({&out});
  const Rows projected = project(x, in);
  Rows inputs = projected;
  Rows mixed(kTokens);
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t c = 0; c < kChannels; ++c) inputs[t][c] = projected[t][c] * projected[t][2 * kChannels + c];
    for (size_t c = 0; c < kChannels; ++c)
      mixed[t].push_back(projected[t][kChannels + c] * (bias.values[c] + convolve(inputs, weight, t, c, c)));
  }
  expect_rows(run(layer, x), x, mixed, out);
}

// Two heads of three that share what writes and what reads.
TEST(Mamba, FadesAndTakesUp) {
  constexpr size_t kHeads = 2;
  constexpr size_t kDim = 3;
  constexpr size_t kInner = kHeads * kDim;
  constexpr size_t kState = 4;
  Mamba layer;
  layer.sizes = {kHeads, kDim, 1, kState, 3};
  const Matrix in(layer.sizes.projected(), kHidden, 1);
  const Matrix weight(3, layer.sizes.channels(), 2);
  const Matrix bias(1, layer.sizes.channels(), 3);
  const Matrix out(kHidden, kInner, 4);
  const Matrix x(kTokens, kHidden, 5);
  layer.in = pack({&in});
  layer.conv = make_conv(weight, &bias, Activation::kSilu);
  layer.step_bias = vector_of({0.3F, -0.2F});
  layer.rate = vector_of({-0.5F, -0.9F});
  layer.skip = vector_of({0.7F, 1.1F});
  layer.max_step = std::numeric_limits<float>::infinity();
  layer.out = pack({&out});
  const Rows projected = project(x, in);
  Rows mixed(kTokens, std::vector<double>(kInner));
  double state[kHeads][kState][kDim] = {};
  for (size_t t = 0; t < kTokens; ++t) {
    const auto conv = [&](size_t c) {
      return silu(bias.values[c] + convolve(projected, weight, t, c, kInner + c));
    };
    for (size_t h = 0; h < kHeads; ++h) {
      const double step =
          softplus(projected[t][2 * kInner + 2 * kState + h] + layer.step_bias.as<float>()[h]);
      const double decay = std::exp(step * layer.rate.as<float>()[h]);
      for (size_t p = 0; p < kDim; ++p) {
        const double value = conv(h * kDim + p);
        double sum = layer.skip.as<float>()[h] * value;
        for (size_t n = 0; n < kState; ++n) {
          double& s = state[h][n][p];
          s = decay * s + step * value * conv(kInner + n);
          sum += s * conv(kInner + kState + n);
        }
        mixed[t][h * kDim + p] = sum * silu(projected[t][h * kDim + p]);
      }
    }
  }
  expect_rows(run(layer, x), x, mixed, out);

  // With a norm behind the gates.
  const Matrix norm(1, kInner, 6);
  layer.norm.emplace();
  layer.norm->size = kInner;
  layer.norm->eps = 1e-5F;
  layer.norm->weight = vector_of(norm);
  for (auto& row : mixed) {
    double squares = 0.0;
    for (const double v : row) squares += v * v;
    for (size_t i = 0; i < kInner; ++i) row[i] *= norm.values[i] / std::sqrt(squares / double{kInner} + 1e-5);
  }
  expect_rows(run(layer, x), x, mixed, out);
}

// Two value heads that share a key head.
TEST(DeltaNet, CorrectsWhatItForesees) {
  constexpr size_t kKey = 3;
  constexpr size_t kValue = 4;
  constexpr size_t kValues = 2 * kValue;
  DeltaNet layer;
  layer.sizes = {1, 2, kKey, kValue, 2};
  const Matrix in(layer.sizes.channels() + layer.sizes.values(), kHidden, 1);
  const Matrix steps(4, kHidden, 2);
  const Matrix weight(2, layer.sizes.channels(), 3);
  const Matrix norm(1, kValue, 4);
  const Matrix out(kHidden, kValues, 5);
  const Matrix x(kTokens, kHidden, 6);
  layer.in = pack({&in});
  layer.steps = pack({&steps});
  layer.conv = make_conv(weight, nullptr, Activation::kSilu);
  layer.query_norm = length_norm(kKey, static_cast<float>(1.0 / std::sqrt(3.0)));
  layer.key_norm = length_norm(kKey, 1.0F);
  layer.step_bias = vector_of({0.3F, -0.2F});
  layer.rate = vector_of({-0.5F, -0.9F});
  layer.norm.size = kValue;
  layer.norm.weight = vector_of(norm);
  layer.out = pack({&out});
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
    const double query_length = length(0) * std::sqrt(double{kKey});
    const double key_length = length(kKey);
    for (size_t h = 0; h < 2; ++h) {
      const double share = sigmoid(small[t][h]);
      const double decay =
          std::exp(layer.rate.as<float>()[h] * softplus(small[t][2 + h] + layer.step_bias.as<float>()[h]));
      std::vector<double> result(kValue);
      double squares = 0.0;
      for (size_t v = 0; v < kValue; ++v) {
        double known = 0.0;
        for (size_t k = 0; k < kKey; ++k) {
          state[h][k][v] *= decay;
          known += conv[kKey + k] / key_length * state[h][k][v];
        }
        const double news = share * (conv[2 * kKey + h * kValue + v] - known);
        for (size_t k = 0; k < kKey; ++k) {
          state[h][k][v] += conv[kKey + k] / key_length * news;
          result[v] += conv[k] / query_length * state[h][k][v];
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
  expect_rows(run(layer, x), x, mixed, out);
}

}  // namespace
}  // namespace quire
