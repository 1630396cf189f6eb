// What stands behind the hidden states of a model that does not generate.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "io/safetensors.h"
#include "models/loader.h"
#include "quant/codec.h"

namespace quire {
namespace {

// A tensor of a small file as float32. Throws Error where it is not there or not [shape].
std::vector<float> read_floats(const Safetensors& file, std::string_view name,
                               const std::vector<int64_t>& shape) {
  const auto tensors = file.tensors();
  const auto info = std::ranges::find(tensors, name, &TensorInfo::name);
  if (info == tensors.end()) throw Error(cat(file.file(), ": has no tensor '", name, "'"));
  if (info->shape != shape) {
    TensorInfo expected;
    expected.shape = shape;
    throw Error(
        cat(file.file(), ": '", name, "' is ", info->shape_text(), ", expected ", expected.shape_text()));
  }
  if (!is_storage_dtype(info->dtype))
    throw Error(cat(file.file(), ": '", name, "' is ", dtype_name(info->dtype),
                    ", expected float32, bfloat16 or float16"));
  const auto bytes = file.data(*info);
  Buffer aligned(bytes.size());
  std::memcpy(aligned.data(), bytes.data(), bytes.size());
  std::vector<float> values(bytes.size() / dtype_size(info->dtype));
  decode_f32(info->dtype, aligned.data(), values.data(), static_cast<int64_t>(values.size()));
  return values;
}

}  // namespace

Linear ModelLoader::dense(const DenseModule& module) {
  const Safetensors file(std::as_bytes(std::span(module.weights)), module.file);
  auto weights = read_floats(file, "linear.weight", {module.out, module.in});
  const std::array<TensorView, 1> parts = {
      make_view(weights.data(), DType::kF32, Shape{module.out, module.in})};
  Linear out{ops_.pack_linear(ctx_, parts, {DType::kF32})};
  out.weight.label = "pooler";
  if (module.bias) {
    const auto bias = read_floats(file, "linear.bias", {module.out});
    out.weight.bias = Buffer(bias.size() * sizeof(float));
    std::memcpy(out.weight.bias.data(), bias.data(), out.weight.bias.size());
  }
  model_->weight_bytes_ += bytes_of(out);
  model_->num_parameters_ += module.out * module.in + (module.bias ? module.out : 0);
  return out;
}

Linear ModelLoader::score_of_tokens() {
  const ExpectedTensor& tensor = *plan_.weight(spec_.tie_word_embeddings ? Role::kEmbedding : Role::kLmHead);
  if (checkpoint_.coded(tensor.name) != nullptr)
    throw Error(cat(tensor.name, ": scores of a quantized output embedding are not supported"));
  Buffer copy;
  const TensorView table = matrix(tensor, -1, copy);
  Buffer row(static_cast<size_t>(table.shape[1]) * sizeof(float));
  for (int64_t i = 0; i < table.shape[1]; ++i) {
    const auto value = [&](int32_t token) {
      return token < 0 ? 0.0F : load_f32(table.dtype, table.data, token * table.shape[1] + i);
    };
    row.as<float>()[i] = value(spec_.score_tokens[0]) - value(spec_.score_tokens[1]);
  }
  if (!spec_.tie_word_embeddings) done(tensor);
  return score_row(std::move(row), table.shape[1]);
}

Linear ModelLoader::score_of_difference() {
  const ExpectedTensor& tensor = *plan_.weight(Role::kClassifier);
  const std::vector<float> rows = floats(tensor);
  const int64_t size = tensor.shape[1];
  Buffer row(static_cast<size_t>(size) * sizeof(float));
  for (int64_t i = 0; i < size; ++i)
    row.as<float>()[i] = rows[static_cast<size_t>(i)] - rows[static_cast<size_t>(size + i)];
  done(tensor);
  return score_row(std::move(row), size);
}

Linear ModelLoader::score_row(Buffer row, int64_t size) {
  const std::array<TensorView, 1> parts = {make_view(row.data(), DType::kF32, Shape{1, size})};
  Linear out{ops_.pack_linear(ctx_, parts, {DType::kF32})};
  out.weight.label = "pooler";
  model_->weight_bytes_ += bytes_of(out);
  return out;
}

Pooler ModelLoader::pooler() {
  Pooler out;
  out.kinds = spec_.pooling;
  out.hidden_size = spec_.narrow_embeddings ? spec_.hidden_size : embedding_size_of(spec_);
  out.scores = spec_.task == ModelTask::kScore;
  out.activation = spec_.score_activation;
  out.normalize = spec_.normalize && !out.scores;
  if (spec_.classifier && out.scores) {
    const ClassifierSpec& own = *spec_.classifier;
    if (!own.dense.empty()) {
      PoolerLayer& layer = out.layers.emplace_back();
      layer.linear = linear({Role::kClassifierDense}, -1);
      layer.activation = own.activation;
      layer.tanh = own.tanh;
      if (!own.norm.empty()) layer.norm = norm(Role::kClassifierNorm, -1, spec_.hidden_size);
    }
    out.layers.emplace_back().linear =
        own.difference ? score_of_difference() : linear({Role::kClassifier}, -1);
  } else if (out.scores) {
    out.layers.emplace_back().linear = score_of_tokens();
  } else if (pooling_files_) {
    int64_t size = out.pooled_size();
    for (const DenseModule& module : pooling_files_->dense) {
      if (module.in != size)
        throw Error(
            cat(module.file, ": takes vectors of ", module.in, " numbers, what is before it gives ", size));
      PoolerLayer& layer = out.layers.emplace_back();
      layer.linear = dense(module);
      layer.activation = module.activation;
      layer.tanh = module.tanh;
      size = module.out;
    }
  }
  return out;
}

int64_t ModelLoader::planned_pooler_bytes() const {
  int64_t sum = 0;
  if (spec_.task == ModelTask::kScore && !spec_.classifier)
    sum += packed_bytes({DType::kF32}, 1, spec_.hidden_size);
  if (spec_.task != ModelTask::kEmbed || !pooling_files_) return sum;
  for (const DenseModule& module : pooling_files_->dense) {
    sum += packed_bytes({DType::kF32}, module.out, module.in);
    if (module.bias) sum += module.out * static_cast<int64_t>(sizeof(float));
  }
  return sum;
}

}  // namespace quire
