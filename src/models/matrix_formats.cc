#include "models/matrix_formats.h"

#include <algorithm>
#include <cstring>

#include "models/model_param_ids.h"
#include "quant/codec.h"
#include "quant/quant_layout.h"

namespace quire {

std::optional<DType> named_dtype(const Checkpoint& checkpoint) {
  for (const auto* field : {"dtype", "torch_dtype"}) {
    const auto it = checkpoint.config().find(field);
    if (it == checkpoint.config().end() || !it->is_string()) continue;
    const auto named = dtype_from_name(it->get<std::string>());
    if (named && is_storage_dtype(*named)) return *named;
  }
  return std::nullopt;
}

size_t MatrixFormats::num_alike(std::span<const StoredTensor* const> tensors) const {
  const QuantizedMatrix* first = checkpoint_.quantized(tensors[0]->name);
  const auto same = [&](const StoredTensor* tensor) {
    const QuantizedMatrix* other = checkpoint_.quantized(tensor->name);
    if (first == nullptr || other == nullptr) return first == other;
    return first->format() == other->format() &&
           std::ranges::equal(first->column_order(), other->column_order());
  };
  return static_cast<size_t>(std::ranges::find_if_not(tensors, same) - tensors.begin());
}

PackedLinear MatrixFormats::outline(std::span<const StoredTensor* const> tensors, Precision precision) const {
  PackedLinear out;
  std::vector<DType> types;
  const QuantizedMatrix* quantized = nullptr;
  for (const StoredTensor* tensor : tensors) {
    quantized = checkpoint_.quantized(tensor->name);
    if (quantized != nullptr) {
      out.n += quantized->rows() / (tensor->stacked ? tensor->shape[0] : 1);
      out.k = quantized->cols();
    } else {
      types.push_back(checkpoint_.find(tensor->name)->dtype);
      const auto dims = std::span(tensor->shape).last(2);
      out.n += dims[tensor->transposed ? 1 : 0];
      out.k = dims[tensor->transposed ? 0 : 1];
    }
  }
  if (quantized == nullptr) {
    if (precision == Precision::kFloat32) {
      out.format = {DType::kF32};
    } else if (!options_.quantization) {
      out.format = {float_type(types)};
    } else {
      const bool head = precision == Precision::kLmHead;
      out.format = head ? options_.quantization->head : options_.quantization->layers;
    }
    return out;
  }
  out.format = {.dtype = DType::kU8, .quantized = quantized->format()};
  // Formats whose values are not integers are multiplied by float activations regardless of the option.
  if (integer_values(out.format.quantized)) out.format.activations = options_.quantized_activations;
  out.format.outlier_threshold = checkpoint_.outlier_threshold();
  out.format.token_scales =
      out.format.activations == ActivationFormat::kInt8 && checkpoint_.token_activation_scales();
  if (const auto order = quantized->column_order(); !order.empty()) {
    out.column_order = Buffer(order.size_bytes());
    std::memcpy(out.column_order.data(), order.data(), order.size_bytes());
  }
  return out;
}

int64_t MatrixFormats::num_outliers(std::span<const StoredTensor* const> tensors) const {
  int64_t sum = 0;
  for (const StoredTensor* tensor : tensors) {
    if (const QuantizedMatrix* quantized = checkpoint_.quantized(tensor->name))
      sum += quantized->num_outliers();
  }
  return sum;
}

DType MatrixFormats::float_type(std::span<const DType> parts) const {
  if (options_.dtype) return *options_.dtype;
  for (const DType part : parts) {
    if (part != parts.front()) return DType::kF32;
  }
  return parts.front();
}

DType MatrixFormats::float_type_of(const StoredTensor& tensor) const {
  const TensorInfo& info = *checkpoint_.find(tensor.name);
  return info.quantized ? activation_type() : info.dtype;
}

DType MatrixFormats::derived_type(bool float32, std::span<const StoredParam> sources) const {
  if (float32 || sources.empty()) return DType::kF32;
  const DType dtype = float_type_of(sources[0].weight);
  return float_type(std::span(&dtype, 1));
}

DType MatrixFormats::activation_type() const {
  if (options_.dtype) return *options_.dtype;
  if (const auto named = named_dtype(checkpoint_)) return *named;
  for (const ParamId id : model::kTyped) {
    const ParamSpec spec{.id = id};
    const auto stored = resolver_.resolve(std::span(&spec, 1), {});
    if (stored.empty()) continue;
    if (const TensorInfo* info = checkpoint_.find(stored[0].weight.name)) return info->dtype;
  }
  return DType::kF32;
}

int64_t MatrixFormats::matrix_bytes(std::span<const StoredTensor* const> tensors, Precision precision) const {
  int64_t bytes = 0;
  for (std::span<const StoredTensor* const> rest = tensors; !rest.empty();) {
    const auto alike = rest.first(num_alike(rest));
    rest = rest.subspan(alike.size());
    const PackedLinear matrix = outline(alike, precision);
    bytes +=
        packed_bytes(matrix.format, matrix.n, matrix.k) + static_cast<int64_t>(matrix.column_order.size());
    const int64_t outliers = num_outliers(alike);
    if (outliers == 0) continue;
    bytes += outliers * static_cast<int64_t>(sizeof(Outlier)) +
             (matrix.n + 1) * static_cast<int64_t>(sizeof(int64_t));
  }
  return bytes;
}

int64_t MatrixFormats::weight_bytes(const ListedParam& param) const {
  constexpr auto kFloat = static_cast<int64_t>(sizeof(float));
  std::vector<const StoredTensor*> tensors;
  int64_t count = 0;  // elements of the tensors
  int64_t out = 0;    // output features of matrices
  int64_t biases = 0;
  for (const StoredParam& stored : param.stored) {
    tensors.push_back(&stored.weight);
    count += elements(stored.weight);
    if (stored.bias) biases += elements(*stored.bias);
    if (param.kind == ParamKind::kMatrix) out += out_features(stored.weight);
  }
  switch (param.kind) {
    case ParamKind::kMatrix:  // parts without a bias have zeros
      return matrix_bytes(tensors, param.precision) + (biases > 0 ? out * kFloat : 0);
    case ParamKind::kVector:
      return (count + biases) * kFloat;
    case ParamKind::kScalar:
      return 0;
    case ParamKind::kIntegers:
      return count * static_cast<int64_t>(sizeof(int32_t));
    case ParamKind::kEmbedding: {
      const std::string& name = tensors.at(0)->name;
      if (checkpoint_.quantized(name) != nullptr) return matrix_bytes(tensors, Precision::kLmHead);
      return static_cast<int64_t>(checkpoint_.find(name)->bytes);  // left in the mapped file
    }
    case ParamKind::kDerivedMatrices: {
      const WeightFormat format = {derived_type(param.float32, param.stored)};
      int64_t bytes = 0;
      for (const DerivedMatrix& matrix : param.matrices)
        bytes += packed_bytes(format, matrix.out, matrix.in) + (matrix.bias ? matrix.out * kFloat : 0);
      return bytes;
    }
    case ParamKind::kDerivedTable:
      return param.count * kFloat;
  }
  return 0;
}

}  // namespace quire
