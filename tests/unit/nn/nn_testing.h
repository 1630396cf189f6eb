// Small matrices for tests that compute an equation in plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <random>
#include <vector>

#include "nn/layers.h"
#include "ops/reference.h"

namespace quire::test {

// A float32 matrix with its own memory, filled with random numbers.
struct Matrix {
  Matrix(int64_t rows, int64_t cols, uint32_t seed)
      : values(static_cast<size_t>(rows * cols)),
        view(make_view(values.data(), DType::kF32, Shape{rows, cols})) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (float& x : values) x = normal(random);
  }
  Matrix(const Matrix& other) : values(other.values), view(other.view) { view.data = values.data(); }
  Matrix& operator=(const Matrix&) = delete;
  std::vector<float> values;
  TensorView view;
  float at(int64_t r, int64_t c) const { return view.row<float>(r)[c]; }
};

// The reference ops, with shape checks.
inline const OpTable& checked_ops() {
  static const OpTable table = checked(reference_ops());
  return table;
}
inline OpRunner runner() {
  static const OpContext context;
  return {checked_ops(), context};
}

inline Linear pack(std::initializer_list<const Matrix*> parts) {
  std::vector<TensorView> views;
  for (const Matrix* part : parts) views.push_back(part->view);
  return Linear{reference_ops().pack_linear({}, views, WeightFormat{DType::kF32})};
}

inline Buffer vector_of(const std::vector<float>& values) {
  Buffer buffer(values.size() * sizeof(float));
  std::copy(values.begin(), values.end(), buffer.as<float>());
  return buffer;
}

inline double dot(const Matrix& x, int64_t row, const Matrix& w, int64_t out) {
  double sum = 0.0;
  for (int64_t i = 0; i < w.view.shape[1]; ++i) sum += double{x.at(row, i)} * w.at(out, i);
  return sum;
}

inline double silu(double x) {
  return x / (1.0 + std::exp(-x));
}

}  // namespace quire::test
