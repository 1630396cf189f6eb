// Hyper-connections against their equation in plain loops.
#include "nn/streams.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "nn_testing.h"

namespace quire {
namespace {

using test::dot;
using test::Matrix;
using test::OwnScratch;
using test::pack;
using test::runner;
using test::vector_of;

constexpr int64_t kStreams = 3;
constexpr int64_t kHidden = 5;
constexpr int64_t kRows = 4;
constexpr int64_t kScores = kStreams * (kStreams + 2);
constexpr double kEps = 1e-3;

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

struct Mixed {
  std::vector<double> in;                // [streams]
  std::vector<double> post;              // [streams]
  std::vector<std::vector<double>> mix;  // [from][to]
};

// The equation of the paper, with rows and columns normalized alternately.
Mixed mix_of(const std::vector<double>& scores, const std::vector<float>& base,
             const std::vector<float>& scale, int rounds) {
  Mixed out;
  const auto scaled = [&](int64_t i, size_t of) {
    return scores[static_cast<size_t>(i)] * scale[of] + base[static_cast<size_t>(i)];
  };
  for (int64_t i = 0; i < kStreams; ++i) out.in.push_back(logistic(scaled(i, 0)) + kEps);
  for (int64_t i = 0; i < kStreams; ++i) out.post.push_back(2 * logistic(scaled(kStreams + i, 1)));
  for (int64_t j = 0; j < kStreams; ++j) {
    std::vector<double> row;
    double sum = 0;
    for (int64_t k = 0; k < kStreams; ++k) {
      row.push_back(std::exp(scaled(2 * kStreams + j * kStreams + k, 2)));
      sum += row.back();
    }
    for (double& x : row) x = x / sum + kEps;
    out.mix.push_back(row);
  }
  for (int line = 0; line < 2 * rounds - 1; ++line) {
    for (size_t a = 0; a < kStreams; ++a) {
      double sum = 0;
      for (size_t b = 0; b < kStreams; ++b) sum += line % 2 == 0 ? out.mix[b][a] : out.mix[a][b];
      for (size_t b = 0; b < kStreams; ++b) (line % 2 == 0 ? out.mix[b][a] : out.mix[a][b]) /= sum + kEps;
    }
  }
  return out;
}

TEST(Streams, MixWithWeightsComputedFromThem) {
  constexpr int kRounds = 4;
  const Matrix weights(kScores, kStreams * kHidden, 1);
  const Matrix numbers(2, kScores, 2);
  const std::vector<float> base(numbers.values.begin(), numbers.values.begin() + kScores);
  const std::vector<float> scale = {0.7F, 1.3F, -0.9F};
  HyperConnections mix;
  mix.norm.size = kStreams * kHidden;
  mix.norm.eps = 1e-6F;
  mix.norm.weight = vector_of(std::vector<float>(kStreams * kHidden, 1.0F));
  mix.scores = pack({&weights});
  mix.base = vector_of(base);
  mix.scale = vector_of(scale);
  mix.params = {.sinkhorn_iters = kRounds, .eps = static_cast<float>(kEps)};
  const StreamSpec spec{.streams = kStreams, .hidden = kHidden};
  ScratchLayout count(kRows + 2);
  make_scratch(spec, count);
  OwnScratch memory(count.size());
  ScratchLayout layout(kRows + 2, memory.memory());
  const StreamScratch at = make_scratch(spec, layout);

  const Matrix first(kRows, kHidden, 3);
  for (int64_t r = 0; r < kRows; ++r) std::copy_n(first.view.row<float>(r), kHidden, at.hidden.row<float>(r));
  begin_streams(runner(), at, kRows);
  std::vector<std::vector<double>> streams;  // [rows * streams][hidden]
  for (int64_t i = 0; i < kRows * kStreams; ++i) {
    for (int64_t d = 0; d < kHidden; ++d) EXPECT_EQ(at.first.row<float>(i)[d], first.at(i / kStreams, d));
    streams.emplace_back(first.view.row<float>(i / kStreams), first.view.row<float>(i / kStreams) + kHidden);
  }
  // There and back.
  for (const bool second : {false, true}) {
    hc_pre_mapping(runner(), mix, at, second, kRows);
    std::vector<Mixed> of_rows;
    for (int64_t r = 0; r < kRows; ++r) {
      std::vector<double> all;
      double squares = 0;
      for (int64_t j = 0; j < kStreams; ++j) {
        for (const double x : streams[static_cast<size_t>(r * kStreams + j)]) {
          all.push_back(x);
          squares += x * x;
        }
      }
      const double norm = std::sqrt(squares / static_cast<double>(all.size()) + 1e-6);
      std::vector<double> scores;
      for (int64_t i = 0; i < kScores; ++i) {
        double sum = 0;
        for (size_t d = 0; d < all.size(); ++d) sum += all[d] / norm * weights.at(i, static_cast<int64_t>(d));
        scores.push_back(sum);
      }
      of_rows.push_back(mix_of(scores, base, scale, kRounds));
      for (int64_t d = 0; d < kHidden; ++d) {
        double want = 0;
        for (int64_t j = 0; j < kStreams; ++j)
          want += of_rows.back().in[static_cast<size_t>(j)] *
                  streams[static_cast<size_t>(r * kStreams + j)][static_cast<size_t>(d)];
        EXPECT_NEAR(at.hidden.row<float>(r)[d], want, 1e-4);
      }
    }
    const Matrix given(kRows, kHidden, second ? 5 : 4);
    for (int64_t r = 0; r < kRows; ++r)
      std::copy_n(given.view.row<float>(r), kHidden, at.hidden.row<float>(r));
    hc_post_mapping(runner(), at, second, kRows);
    const auto before = streams;
    for (int64_t r = 0; r < kRows; ++r) {
      const Mixed& own = of_rows[static_cast<size_t>(r)];
      for (size_t k = 0; k < kStreams; ++k) {
        for (int64_t d = 0; d < kHidden; ++d) {
          double want = own.post[k] * given.at(r, d);
          for (size_t j = 0; j < kStreams; ++j)
            want += own.mix[j][k] * before[static_cast<size_t>(r * kStreams) + j][static_cast<size_t>(d)];
          const int64_t row = r * kStreams + static_cast<int64_t>(k);
          streams[static_cast<size_t>(row)][static_cast<size_t>(d)] = want;
          EXPECT_NEAR((second ? at.first : at.second).row<float>(row)[d], want, 1e-4);
        }
      }
    }
  }
}

}  // namespace
}  // namespace quire
