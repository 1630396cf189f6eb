// Small matrices for tests that compute an equation in plain loops.
#pragma once

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "nn/mixer.h"
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

// Fills a mechanism with given weights by parameter, as they are stored in a checkpoint. The parameters of an
// expert have one matrix per expert. Matrices have no biases.
class GivenWeights : public ParamVisitor {
 public:
  using Weights = std::map<std::string_view, std::vector<Matrix>>;
  explicit GivenWeights(Weights weights, Weights biases = {})
      : weights_(std::move(weights)), biases_(std::move(biases)) {}

  void matrix(const MatrixSpec& spec, Linear& result) override {
    std::vector<TensorView> parts;
    for (const ParamSpec& param : spec.fused) parts.push_back(of(weights_, param).view);
    result = {reference_ops().pack_linear({}, parts, WeightFormat{DType::kF32})};
  }
  void vector(const VectorSpec& spec, Buffer& result, Buffer* bias) override {
    std::vector<float> values;
    for (const ParamSpec& param : spec.fused) {
      const Matrix& part = of(weights_, param);
      values.insert(values.end(), part.values.begin(), part.values.end());
    }
    result = vector_of(values);
    if (spec.transform) result = spec.transform(std::move(result));
    const ParamSpec& first = spec.fused[0];
    if (bias != nullptr && first.bias) *bias = vector_of(of(biases_, first).values);
  }
  void scalar(const ParamSpec& /*spec*/, float& /*result*/) override {}
  void integers(const ParamSpec& /*spec*/, int64_t /*limit*/, Buffer& /*result*/) override {}
  void embedding(const ParamSpec& /*spec*/, Embedding& /*result*/) override {}
  void derived(const DerivedSpec& /*spec*/, std::span<Linear> /*results*/) override {}
  void derived(const DerivedTable& /*spec*/, Buffer& /*result*/) override {}
  void kv_scales(int32_t /*layer*/, std::optional<KvScales>& /*result*/) override {}
  void for_each(Axis /*axis*/, int64_t count, const std::function<void(int64_t)>& body) override {
    for (index_ = 0; index_ < static_cast<size_t>(count); ++index_) body(static_cast<int64_t>(index_));
    index_ = 0;
  }

 private:
  const Matrix& of(const Weights& all, const ParamSpec& param) const {
    return all.at(param.id.name).at(index_);
  }

  Weights weights_;
  Weights biases_;
  size_t index_ = 0;
};

// Scratch memory of a given size, of NaN.
struct OwnScratch {
  explicit OwnScratch(int64_t size) : floats(static_cast<size_t>(size), NAN) {}
  ScratchMemory memory() { return {floats.data()}; }
  std::vector<float> floats;
};

// Runs a mixer with scratch memory of its own; `out` is the residual too.
inline void forward(const OpRunner& run, const Mixer& mixer, const TensorView& out, const TensorView& x,
                    const ForwardBatch& batch, const KvCacheView& kv = {}, const LayerState& state = {}) {
  ScratchLayout count(x.rows());
  mixer.count_scratch(count);
  OwnScratch scratch(count.size());
  const SharedTables no_tables;
  mixer.forward(run, {.out = out,
                      .x = x,
                      .residual = out,
                      .tables = no_tables,
                      .batch = batch,
                      .kv = kv,
                      .state = state,
                      .work = scratch.memory()});
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
