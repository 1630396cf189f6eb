#include "models/byte_plan.h"

#include <algorithm>
#include <array>
#include <vector>

namespace quire {
namespace {

constexpr auto kFloat = static_cast<int64_t>(sizeof(float));

}  // namespace

void BytePlan::add_packed(std::span<const StoredTensor* const> tensors, const MatrixSpec& spec) {
  const PackedLinear matrix = formats_.outline(tensors, spec);
  bytes_ +=
      packed_bytes(matrix.format, matrix.n, matrix.k) + static_cast<int64_t>(matrix.column_order.size());
  bytes_ += outlier_bytes(formats_.num_outliers(tensors), matrix.n);
}

void BytePlan::matrix(const MatrixSpec& spec, Linear& /*result*/) {
  const std::vector<StoredParam> params = matrices(spec.fused);
  std::vector<const StoredTensor*> tensors;
  bool has_bias = false;
  int64_t out = 0;
  for (const StoredParam& param : params) {
    tensors.push_back(&param.weight);
    has_bias = has_bias || param.bias;
    out += out_features(param.weight);
  }
  if (has_bias) bytes_ += out * kFloat;  // parts without a bias have zeros
  for (std::span<const StoredTensor* const> rest = tensors; !rest.empty();) {
    const auto alike = rest.first(formats_.num_alike(rest));
    rest = rest.subspan(alike.size());
    add_packed(alike, spec);
  }
}

void BytePlan::vector(const VectorSpec& spec, Buffer& /*result*/, Buffer* /*bias*/) {
  for (const StoredParam& param : vectors(spec.fused)) {
    bytes_ += elements(param.weight) * kFloat;
    if (param.bias) bytes_ += elements(*param.bias) * kFloat;
  }
}

void BytePlan::scalar(const ParamSpec& /*spec*/, float& /*result*/) {}

void BytePlan::integers(const ParamSpec& spec, int64_t /*limit*/, Buffer& /*result*/) {
  for (const StoredParam& param : matrices(std::span(&spec, 1)))
    bytes_ += elements(param.weight) * static_cast<int64_t>(sizeof(int32_t));
}

void BytePlan::embedding(const ParamSpec& spec, Embedding& /*result*/) {
  for (const StoredParam& param : matrices(std::span(&spec, 1))) {
    const std::array<const StoredTensor*, 1> tensors = {&param.weight};
    if (checkpoint_->quantized(param.weight.name) == nullptr) {
      bytes_ += static_cast<int64_t>(checkpoint_->find(param.weight.name)->bytes);  // left in the mapped file
    } else {
      add_packed(tensors, {.label = "embedding", .fused = {spec}, .precision = Precision::kLmHead});
    }
  }
}

void BytePlan::derived(const DerivedSpec& spec, std::span<Linear> /*results*/) {
  std::vector<StoredParam> sources;
  for (const ParamSpec& param : stored_sources(spec))
    std::ranges::copy(source(param), std::back_inserter(sources));
  const WeightFormat format = {formats_.derived_type(spec, sources)};
  for (const DerivedMatrix& matrix : spec.matrices) {
    bytes_ += packed_bytes(format, matrix.out, matrix.in);
    if (matrix.bias) bytes_ += matrix.out * kFloat;
  }
}

void BytePlan::derived(const DerivedTable& spec, Buffer& /*result*/) {
  bytes_ += spec.count * kFloat;
}

void BytePlan::kv_scales(int32_t /*layer*/, std::optional<KvScales>& /*result*/) {}

}  // namespace quire
