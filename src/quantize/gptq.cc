#include "quantize/gptq.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/error.h"

namespace quire {
namespace {

constexpr int64_t kBlock = 128;  // columns whose errors are propagated to the remaining columns at once
constexpr int64_t kRows = 16;    // rows per thread and step

// Eight partial sums, so that they can be vectorized; always in this order.
double dot(const double* a, const double* b, int64_t n) {
  std::array<double, 8> sums{};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (size_t j = 0; j < 8; ++j) sums[j] += a[i + static_cast<int64_t>(j)] * b[i + static_cast<int64_t>(j)];
  }
  double sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Replaces the lower triangle of a [k, k] by its Cholesky factor. Returns false if a is not positive
// definite.
bool factorize(ThreadPool& pool, std::vector<double>& a, int64_t k) {
  constexpr int64_t kPanel = 64;
  bool good = true;
  const auto row = [&](int64_t i) { return a.data() + i * k; };
  const auto element = [&](int64_t i, int64_t j) { return (row(i)[j] - dot(row(i), row(j), j)) / row(j)[j]; };
  for (int64_t begin = 0; begin < k; begin += kPanel) {
    const int64_t end = std::min(k, begin + kPanel);
    for (int64_t i = begin; i < end; ++i) {
      for (int64_t j = begin; j < i; ++j) row(i)[j] = element(i, j);
      const double square = row(i)[i] - dot(row(i), row(i), i);
      if (!(square > 0.0)) good = false;
      row(i)[i] = std::sqrt(square);
    }
    if (!good) return false;
    pool.parallel_for(k - end, 8, [&](int64_t first, int64_t last, int) {
      for (int64_t i = end + first; i < end + last; ++i) {
        for (int64_t j = begin; j < end; ++j) row(i)[j] = element(i, j);
      }
    });
  }
  return true;
}

// Writes the inverse of the lower triangle of a [k, k], transposed, to the upper triangle: row j is column j
// of the inverse, starting at the diagonal. The part below the diagonal is not changed.
void invert(ThreadPool& pool, std::vector<double>& a, int64_t k) {
  constexpr int64_t kColumns = 8;
  std::vector<double> diagonal(static_cast<size_t>(k));
  for (int64_t i = 0; i < k; ++i) {
    double& own = a[static_cast<size_t>(i * k + i)];
    diagonal[static_cast<size_t>(i)] = own;
    own = 1.0 / own;
  }
  pool.parallel_for(k, kColumns, [&](int64_t first, int64_t last, int) {
    for (int64_t i = first; i < k; ++i) {
      const double* row = a.data() + i * k;
      for (int64_t j = first; j < std::min(last, i); ++j) {
        double* column = a.data() + j * k;
        column[i] = -dot(row + j, column + j, i - j) / diagonal[static_cast<size_t>(i)];
      }
    }
  });
}

// Rounds rows [first, last) of a matrix. w: these rows, with k weights each in inputs.order; overwritten.
void round_rows(const GptqInputs& inputs, RoundingGrid& grid, float* w, int64_t first, int64_t last) {
  const int64_t k = inputs.k;
  std::vector<float> lost(static_cast<size_t>((last - first) * kBlock));
  for (int64_t begin = 0; begin < k; begin += kBlock) {
    const int64_t end = std::min(k, begin + kBlock);
    for (int64_t r = 0; r < last - first; ++r) {
      float* row = w + r * k;
      for (int64_t i = begin; i < end; ++i) {
        const float* line = inputs.u.data() + i * k;
        const float value = grid.round(first + r, inputs.order[static_cast<size_t>(i)],
                                       {row + i, static_cast<size_t>(k - i)});
        const float error = (row[i] - value) / line[i];
        lost[static_cast<size_t>(r * kBlock + i - begin)] = error;
        for (int64_t j = i + 1; j < end; ++j) row[j] -= error * line[j];
      }
    }
    // Propagates the errors of the block to all following columns.
    for (int64_t i = begin; i < end; ++i) {
      const float* line = inputs.u.data() + i * k;
      for (int64_t r = 0; r < last - first; ++r) {
        const float factor = lost[static_cast<size_t>(r * kBlock + i - begin)];
        float* row = w + r * k;
        for (int64_t j = end; j < k; ++j) row[j] -= factor * line[j];
      }
    }
  }
}

// Integers in groups, as in IntMatrix.
class IntGrid : public RoundingGrid {
 public:
  IntGrid(const GptqInputs& inputs, IntMatrix& out)
      : inputs_(inputs), out_(out), groups_first_(inputs.act_order || out.num_groups() == 1) {}

  void begin_row(int64_t row, std::span<const float> w) override {
    for (int64_t g = 0; groups_first_ && g < out_.num_groups(); ++g) {
      const int64_t begin = g * out_.group_size;
      out_.group(row, g) = choose(w.subspan(static_cast<size_t>(begin)), begin);
    }
  }
  float round(int64_t row, int64_t column, std::span<const float> rest) override {
    IntGroup& group = out_.group(row, column / out_.group_size);
    if (!groups_first_ && column % out_.group_size == 0) group = choose(rest, column);
    const int32_t code = code_of(out_.rounding, group, rest.front());
    out_.code(row, column) = static_cast<uint8_t>(code);
    return group.value(code);
  }

 private:
  // Chooses the group of columns starting at `begin`, with weights w.
  IntGroup choose(std::span<const float> w, int64_t begin) const {
    const auto size = static_cast<size_t>(std::min(out_.group_size, inputs_.k - begin));
    return choose_group(out_.rounding, w.first(size),
                        std::span(inputs_.importance).subspan(static_cast<size_t>(begin), size));
  }

  const GptqInputs& inputs_;
  IntMatrix& out_;
  bool groups_first_;  // scales are chosen from the original weights
};

}  // namespace

std::vector<float> inverse_factor(ThreadPool& pool, std::span<const float> h, std::span<const int32_t> order,
                                  double damp) {
  const auto k = static_cast<int64_t>(order.size());
  double mean = 0.0;
  for (const int64_t i : order) mean += h[static_cast<size_t>(i * k + i)] / static_cast<double>(k);
  if (!std::isfinite(mean))
    throw Error("the observed inputs are not finite; check the model and the calibration text");
  // H = R R^T with an upper triangular R is a Cholesky factorization that starts at the last row; U is R^-1.
  const auto source = [&](int64_t i) { return int64_t{order[static_cast<size_t>(k - 1 - i)]}; };
  std::vector<double> flipped(h.size());
  for (int attempt = 0; attempt < 8; ++attempt, damp = std::max(1e-4, damp * 10.0)) {
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j <= i; ++j)
        flipped[static_cast<size_t>(i * k + j)] = h[static_cast<size_t>(source(i) * k + source(j))];
      double& diagonal = flipped[static_cast<size_t>(i * k + i)];
      if (diagonal == 0.0) diagonal = mean > 0.0 ? mean : 1.0;
      diagonal += damp * mean;
    }
    if (!factorize(pool, flipped, k)) continue;
    invert(pool, flipped, k);
    std::vector<float> u(h.size());
    for (int64_t a = 0; a < k; ++a) {
      for (int64_t b = a; b < k; ++b)
        u[static_cast<size_t>(a * k + b)] =
            static_cast<float>(flipped[static_cast<size_t>((k - 1 - b) * k + (k - 1 - a))]);
    }
    return u;
  }
  throw Error("the Hessian of the observed inputs is not positive definite; use more calibration text");
}

GptqInputs prepare_gptq(ThreadPool& pool, std::span<const float> h, int64_t k, const GptqOptions& options) {
  GptqInputs inputs{.k = k, .act_order = options.act_order};
  inputs.importance.resize(static_cast<size_t>(k));
  for (int64_t i = 0; i < k; ++i)
    inputs.importance[static_cast<size_t>(i)] = h[static_cast<size_t>(i * k + i)];
  inputs.order.resize(static_cast<size_t>(k));
  std::iota(inputs.order.begin(), inputs.order.end(), 0);
  if (options.act_order)
    std::ranges::stable_sort(inputs.order, std::greater<>(),
                             [&](int32_t i) { return inputs.importance[static_cast<size_t>(i)]; });
  inputs.u = inverse_factor(pool, h, inputs.order, options.damp);
  return inputs;
}

void round_gptq(ThreadPool& pool, std::span<const float> w, int64_t n, const GptqInputs& inputs,
                RoundingGrid& grid) {
  const auto k = static_cast<size_t>(inputs.k);
  pool.parallel_for(n, kRows, [&](int64_t first, int64_t last, int) {
    std::vector<float> rows(static_cast<size_t>(last - first) * k);
    for (int64_t r = first; r < last; ++r) {
      const auto source = w.subspan(static_cast<size_t>(r) * k, k);
      grid.begin_row(r, source);
      float* row = rows.data() + static_cast<size_t>(r - first) * k;
      for (size_t i = 0; i < k; ++i) row[i] = source[static_cast<size_t>(inputs.order[i])];
    }
    round_rows(inputs, grid, rows.data(), first, last);
  });
}

void round_each(ThreadPool& pool, std::span<const float> w, int64_t n, int64_t k, RoundingGrid& grid) {
  pool.parallel_for(n, 1, [&](int64_t first, int64_t last, int) {
    for (int64_t r = first; r < last; ++r) {
      const auto row = w.subspan(static_cast<size_t>(r * k), static_cast<size_t>(k));
      grid.begin_row(r, row);
      for (int64_t i = 0; i < k; ++i) grid.round(r, i, row.subspan(static_cast<size_t>(i)));
    }
  });
}

IntMatrix round_gptq(ThreadPool& pool, const IntRounding& rounding, std::span<const float> w, int64_t n,
                     int64_t group_size, const GptqInputs& inputs) {
  IntMatrix out(rounding, n, inputs.k, group_size);
  IntGrid grid(inputs, out);
  round_gptq(pool, w, n, inputs, grid);
  return out;
}

}  // namespace quire
