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

int64_t outlier_bytes(int64_t num_outliers, int64_t n) {
  if (num_outliers == 0) return 0;
  return num_outliers * static_cast<int64_t>(sizeof(Outlier)) +
         (n + 1) * static_cast<int64_t>(sizeof(int64_t));
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

PackedLinear MatrixFormats::outline(std::span<const StoredTensor* const> tensors,
                                    const MatrixSpec& spec) const {
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
  out.label = spec.label;
  if (quantized == nullptr) {
    if (spec.precision == Precision::kFloat32) {
      out.format = {DType::kF32};
    } else if (!options_.quantization) {
      out.format = {float_type(types)};
    } else {
      const bool head = spec.precision == Precision::kLmHead;
      out.format = head ? options_.quantization->head : options_.quantization->layers;
    }
    return out;
  }
  out.format = {.dtype = DType::kU8, .quantized = quantized->format()};
  // Formats whose values are not integers are multiplied by float activations regardless of the option.
  if (integer_values(out.format.quantized)) out.format.activations = options_.quantized_activations;
  out.format.outlier_threshold = checkpoint_.outlier_threshold();
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

DType MatrixFormats::derived_type(const DerivedSpec& spec, std::span<const StoredParam> sources) const {
  if (spec.float32 || sources.empty()) return DType::kF32;
  const DType dtype = float_type_of(sources[0].weight);
  return float_type(std::span(&dtype, 1));
}

DType MatrixFormats::activation_type() const {
  if (options_.dtype) return *options_.dtype;
  if (const auto named = named_dtype(checkpoint_)) return *named;
  for (const ParamId id : {model::kFinalNorm, model::kEmbedTokens}) {
    const ParamSpec spec{.id = id};
    const auto stored = resolver_.resolve(std::span(&spec, 1), {});
    if (stored.empty()) continue;
    if (const TensorInfo* info = checkpoint_.find(stored[0].weight.name)) return info->dtype;
  }
  return DType::kF32;
}

}  // namespace quire
