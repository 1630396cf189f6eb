// Dense layers of a pooling model that have files of their own (sentence-transformers).
#include <algorithm>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "io/safetensors.h"
#include "models/model_description.h"
#include "quant/codec.h"

namespace quire {
namespace {

// A tensor of a small file as float32. Throws Error if it is missing or does not have the shape.
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

void ModelDescription::pooler_files(Pooler& pooler) {
  if (source_.files == nullptr) return;
  int64_t size = pooler.pooled_size();
  for (const DenseModule& module : source_.files->dense) {
    if (module.in != size) {
      throw Error(cat(module.file, ": takes vectors of ", module.in,
                      " numbers, but the previous module returns ", size));
    }
    PoolerLayer& layer = pooler.layers.emplace_back();
    const auto read = [&module](std::string_view name, const std::vector<int64_t>& shape,
                                std::span<float> out) {
      const Safetensors file(std::as_bytes(std::span(module.weights)), module.file);
      std::ranges::copy(read_floats(file, name, shape), out.begin());
    };
    visitor_.derived({.label = "pooler",
                      .matrices = {{"", module.out, module.in, module.bias}},
                      .float32 = true,
                      .parameters = module.out * module.in + (module.bias ? module.out : 0),
                      .compute =
                          [&](ParamReader&, size_t /*index*/, std::span<float> out) {
                            read("linear.weight", {module.out, module.in}, out);
                          },
                      .compute_bias = [&](ParamReader&, size_t /*index*/,
                                          std::span<float> out) { read("linear.bias", {module.out}, out); }},
                     std::span(&layer.linear.emplace(), 1));
    layer.activation = module.activation;
    layer.tanh = module.tanh;
    size = module.out;
  }
}

}  // namespace quire
