// GPTQ, compared with numpy in float64 (tools/gptq_reference.py) and with rounding to nearest.
#include "quantize/gptq.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <random>

#include "io/json_file.h"
#include "unit/io/io_test_util.h"

namespace quire {
namespace {

struct Golden {
  int64_t n, k;
  double damp;
  std::vector<float> w, h;
  nlohmann::json json;
};

Golden golden() {
  auto json = read_json_file(std::filesystem::path(QUIRE_SOURCE_DIR) / "tests/golden/quant/gptq.json");
  return {json["n"], json["k"], json["damp"], json["w"], json["h"], json};
}

IntMatrix gptq_of(ThreadPool& pool, const IntRounding& how, const std::vector<float>& w, int64_t n, int64_t k,
                  int64_t group_size, const std::vector<float>& h, const GptqOptions& options) {
  return round_gptq(pool, how, w, n, group_size, prepare_gptq(pool, h, k, options));
}

const IntRounding kPlain{.bits = 4, .scales = DType::kF32, .largest_fits = true};

// Squared error of the products over the inputs.
double error_of(const IntMatrix& codes, const Golden& g) {
  double sum = 0.0;
  std::vector<float> row(static_cast<size_t>(g.k));
  for (int64_t r = 0; r < g.n; ++r) {
    codes.decode_row(r, row);
    for (int64_t i = 0; i < g.k; ++i) row[static_cast<size_t>(i)] -= g.w[static_cast<size_t>(r * g.k + i)];
    for (int64_t i = 0; i < g.k; ++i) {
      for (int64_t j = 0; j < g.k; ++j)
        sum += static_cast<double>(row[static_cast<size_t>(i)]) * row[static_cast<size_t>(j)] *
               g.h[static_cast<size_t>(i * g.k + j)];
    }
  }
  return sum;
}

TEST(Gptq, FactorMatchesNumpy) {
  const Golden g = golden();
  ThreadPool pool(2);
  std::vector<int32_t> order(static_cast<size_t>(g.k));
  std::iota(order.begin(), order.end(), 0);
  const std::vector<float> u = inverse_factor(pool, g.h, order, g.damp);
  const std::vector<double> expected = g.json["factor"];
  double largest = 0.0;
  for (const double v : expected) largest = std::max(largest, std::fabs(v));
  for (size_t i = 0; i < u.size(); ++i) ASSERT_NEAR(u[i], expected[i], 1e-6 * largest) << i;
}

TEST(Gptq, CodesMatchTheReference) {
  const Golden g = golden();
  ThreadPool pool(2);
  const IntMatrix rows = gptq_of(pool, kPlain, g.w, g.n, g.k, 0, g.h, {g.damp, false});
  EXPECT_EQ(rows.codes, g.json["codes_of_rows"].get<std::vector<uint8_t>>());
  const IntMatrix by_size = gptq_of(pool, kPlain, g.w, g.n, g.k, 16, g.h, {g.damp, true});
  EXPECT_EQ(by_size.codes, g.json["codes_of_16_by_size"].get<std::vector<uint8_t>>());
}

TEST(Gptq, IsMoreAccurateThanRoundToNearest) {
  const Golden g = golden();
  ThreadPool pool(2);
  for (const int32_t bits : {2, 3, 4}) {
    const IntRounding how{.bits = bits};
    const double nearest = error_of(round_to_nearest(pool, how, g.w, g.n, g.k, 16), g);
    for (const bool act_order : {false, true}) {
      EXPECT_LT(error_of(gptq_of(pool, how, g.w, g.n, g.k, 16, g.h, {0.01, act_order}), g), 0.75 * nearest)
          << bits << " " << act_order;
    }
  }
}

// More columns than the blocks in which errors are propagated.
struct Wide {
  static constexpr int64_t n = 37;
  static constexpr int64_t k = 200;
  std::vector<float> w = std::vector<float>(n * k);
  std::vector<float> h = std::vector<float>(k * k);

  Wide() {
    std::mt19937 rng(3);
    std::normal_distribution<float> normal;
    for (float& v : w) v = normal(rng);
    for (int t = 0; t < 400; ++t) {
      std::vector<float> x(static_cast<size_t>(k));
      for (float& v : x) v = normal(rng);
      for (size_t i = 0; i < x.size(); ++i) {
        for (size_t j = 0; j < x.size(); ++j) h[i * x.size() + j] += x[i] * x[j];
      }
    }
  }
};

float to_quarters(float v) {
  return std::nearbyint(4.0F * v) / 4.0F;
}

struct Quarters : RoundingGrid {
  std::vector<float> values = std::vector<float>(Wide::n * Wide::k);

  void begin_row(int64_t, std::span<const float>) override {}
  float round(int64_t row, int64_t column, std::span<const float> rest) override {
    return values[static_cast<size_t>(row * Wide::k + column)] = to_quarters(rest.front());
  }
};

TEST(Gptq, CompensatesErrorsInAllLaterColumns) {
  const Wide wide;
  ThreadPool pool(2);
  const GptqInputs inputs = prepare_gptq(pool, wide.h, Wide::k, {.act_order = false});
  Quarters rounded;
  round_gptq(pool, wide.w, Wide::n, inputs, rounded);
  std::vector<float> row(static_cast<size_t>(Wide::k));
  for (size_t r = 0; r < static_cast<size_t>(Wide::n); ++r) {
    std::copy_n(wide.w.begin() + static_cast<std::ptrdiff_t>(r * row.size()), row.size(), row.begin());
    for (size_t i = 0; i < row.size(); ++i) {
      const float value = to_quarters(row[i]);
      ASSERT_EQ(rounded.values[r * row.size() + i], value) << "row " << r << ", column " << i;
      const float* u = inputs.u.data() + i * row.size();
      const float error = (row[i] - value) / u[i];
      for (size_t j = i + 1; j < row.size(); ++j) row[j] -= error * u[j];
    }
  }
}

TEST(Gptq, ResultsDoNotDependOnTheNumberOfThreads) {
  const Wide wide;
  ThreadPool one(1);
  ThreadPool three(3);
  const IntRounding how{.bits = 4, .zero_points = true};
  const IntMatrix a = gptq_of(one, how, wide.w, Wide::n, Wide::k, 64, wide.h, {});
  EXPECT_EQ(a.codes, gptq_of(three, how, wide.w, Wide::n, Wide::k, 64, wide.h, {}).codes);
}

TEST(Gptq, SupportsInputsThatAreAlwaysZero) {
  Golden g = golden();
  for (int64_t i = 0; i < g.k; ++i)
    g.h[static_cast<size_t>(5 * g.k + i)] = g.h[static_cast<size_t>(i * g.k + 5)] = 0.0F;
  ThreadPool pool(1);
  const IntMatrix codes = gptq_of(pool, kPlain, g.w, g.n, g.k, 16, g.h, {});
  std::vector<float> row(static_cast<size_t>(g.k));
  for (int64_t r = 0; r < g.n; ++r) {
    codes.decode_row(r, row);
    EXPECT_NEAR(row[5], g.w[static_cast<size_t>(r * g.k + 5)], codes.group(r, 0).scale);
  }
}

TEST(Gptq, RejectsNonFiniteInputs) {
  Golden g = golden();
  g.h[0] = std::numeric_limits<float>::quiet_NaN();
  ThreadPool pool(1);
  EXPECT_THAT(test::error_of([&] { prepare_gptq(pool, g.h, g.k, {}); }), ::testing::HasSubstr("not finite"));
}

}  // namespace
}  // namespace quire
