#include "quantize/scaling.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/cpu_backend.h"
#include "quant/codec.h"
#include "quantize/float_matrix.h"

namespace quire {
namespace {

constexpr int kPowers = 20;
// Rows of a matrix, evenly spaced, on which factors are evaluated.
constexpr int64_t kSampledRows = 128;

// Some rows of the matrices, stacked.
std::vector<float> sampled_rows(const Checkpoint& checkpoint, const std::vector<std::string>& matrices,
                                int64_t k) {
  std::vector<float> rows;
  for (const std::string& name : matrices) {
    const FloatMatrix w = read_matrix(checkpoint, name);
    const int64_t count = std::min(w.n, kSampledRows);
    for (int64_t i = 0; i < count; ++i) {
      const float* row = w.values.data() + i * w.n / count * k;
      rows.insert(rows.end(), row, row + k);
    }
  }
  return rows;
}

// The squared error of the products over all inputs in h [k, k]: the sum of d H d^T over the rows of d.
class ProductError {
 public:
  ProductError(ThreadPool& pool, const InputStats& stats)
      : ops_(*select_cpu_isa().table), ctx_{&pool, {}}, k_(stats.k) {
    const TensorView h = make_view(const_cast<float*>(stats.h.data()), DType::kF32, Shape{k_, k_});
    packed_ = ops_.pack_linear(ctx_, std::span(&h, 1), {DType::kF32});
  }
  double of(std::vector<float>& difference) const {
    const int64_t n = static_cast<int64_t>(difference.size()) / k_;
    std::vector<float> product(difference.size());
    ops_.run(ctx_, ops::Linear{.out = make_view(product.data(), DType::kF32, Shape{n, k_}),
                               .x = make_view(difference.data(), DType::kF32, Shape{n, k_}),
                               .w = packed_});
    double sum = 0.0;
    for (size_t i = 0; i < product.size(); ++i) sum += static_cast<double>(product[i]) * difference[i];
    return sum;
  }

 private:
  const OpTable& ops_;
  OpContext ctx_;
  int64_t k_;
  PackedLinear packed_;
};

// Normalizes factors so that the geometric mean of the largest and the smallest is 1.
void center(std::vector<float>& factors) {
  const auto [min_factor, max_factor] = std::ranges::minmax(factors);
  const float middle = std::sqrt(min_factor * max_factor);
  for (float& f : factors) f = std::clamp(f / middle, 1e-4F, 1e4F);
}

}  // namespace

std::vector<float> awq_factors(ThreadPool& pool, const Target& target, const Checkpoint& checkpoint,
                               const std::vector<std::string>& matrices, const InputStats& stats) {
  const int64_t k = stats.k;
  const auto size = static_cast<size_t>(k);
  const std::vector<float> rows = sampled_rows(checkpoint, matrices, k);
  const int64_t n = static_cast<int64_t>(rows.size()) / k;
  const ProductError product_error(pool, stats);
  std::vector<float> mean(size);
  for (size_t i = 0; i < size; ++i) {
    const double square = stats.h[i * size + i] / static_cast<double>(std::max<int64_t>(1, stats.rows));
    mean[i] = static_cast<float>(std::max(1e-6, std::sqrt(square)));
  }
  std::vector<float> best(size, 1.0F);
  double min_error = std::numeric_limits<double>::infinity();
  for (int step = 0; step < kPowers; ++step) {
    const float power = static_cast<float>(step) / kPowers;
    std::vector<float> factors(size);
    for (size_t i = 0; i < size; ++i) factors[i] = std::pow(mean[i], power);
    center(factors);
    std::vector<float> scaled(rows);
    for (size_t i = 0; i < scaled.size(); ++i) scaled[i] *= factors[i % size];
    std::vector<float> importance(size);
    for (size_t i = 0; i < size; ++i) importance[i] = stats.h[i * size + i] / (factors[i] * factors[i]);
    const IntMatrix codes =
        round_to_nearest(pool, target.rounding(), scaled, n, k, target.group_size, importance);
    for (int64_t r = 0; r < n; ++r) {
      const auto row = std::span(scaled).subspan(static_cast<size_t>(r) * size, size);
      codes.decode_row(r, row);
      for (size_t i = 0; i < size; ++i)
        row[i] = row[i] / factors[i] - rows[static_cast<size_t>(r) * size + i];
    }
    const double error = product_error.of(scaled);
    if (error < min_error) {
      min_error = error;
      best = factors;
    }
  }
  return best;
}

std::vector<float> smooth_factors(const Checkpoint& checkpoint, const std::vector<std::string>& matrices,
                                  const InputStats& stats, float strength) {
  const auto size = static_cast<size_t>(stats.k);
  std::vector<float> weight(size);
  for (const std::string& name : matrices) {
    const FloatMatrix w = read_matrix(checkpoint, name);
    for (size_t i = 0; i < w.values.size(); ++i)
      weight[i % size] = std::max(weight[i % size], std::fabs(w.values[i]));
  }
  std::vector<float> factors(size, 1.0F);
  for (size_t i = 0; i < size; ++i) {
    if (!(stats.largest[i] > 0.0F) || !(weight[i] > 0.0F)) continue;
    factors[i] =
        std::clamp(std::pow(stats.largest[i], strength) / std::pow(weight[i], 1.0F - strength), 1e-4F, 1e4F);
  }
  return factors;
}

std::vector<std::string> apply_factors(OverlayCheckpoint& checkpoint, const ScalableInput& input,
                                       std::vector<float> factors, InputStats& stats) {
  const size_t k = factors.size();
  std::vector<std::string> changed = {input.source};
  std::vector<float> source = read_floats(checkpoint, input.source);
  if (input.norm) {
    const DType type = checkpoint.find(input.source)->dtype;
    for (size_t i = 0; i < k; ++i) {
      const float whole = source[i] + input.offset;
      alignas(4) std::array<std::byte, 4> stored{};
      store_f32(type, stored.data(), 0, whole / factors[i] - input.offset);
      const float divided = load_f32(type, stored.data(), 0);
      // The factor compensates for the rounding of the type. If no valid factor does, the column is not
      // scaled.
      const float factor = whole / (divided + input.offset);
      const bool usable = std::isfinite(factor) && factor > 0.0F;
      factors[i] = usable ? factor : 1.0F;
      if (usable) source[i] = divided;
    }
    if (!input.source_bias.empty()) {
      std::vector<float> bias = read_floats(checkpoint, input.source_bias);
      for (size_t i = 0; i < k; ++i) bias[i] /= factors[i];
      checkpoint.replace(input.source_bias, bias);
      changed.push_back(input.source_bias);
    }
  } else {
    const size_t columns = source.size() / k;
    for (size_t i = 0; i < source.size(); ++i) source[i] /= factors[i / columns];
  }
  checkpoint.replace(input.source, source);
  for (const std::string& name : input.matrices) {
    FloatMatrix w = read_matrix(checkpoint, name);
    for (size_t i = 0; i < w.values.size(); ++i) w.values[i] *= factors[i % k];
    checkpoint.replace(name, w.values);
  }
  for (size_t i = 0; i < k; ++i) {
    stats.largest[i] /= factors[i];
    for (size_t j = 0; j < k; ++j) stats.h[i * k + j] /= factors[i] * factors[j];
  }
  return changed;
}

}  // namespace quire
