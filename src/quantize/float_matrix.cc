#include "quantize/float_matrix.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/strings.h"
#include "quant/codec.h"

namespace quire {

std::vector<float> read_floats(const Checkpoint& checkpoint, const std::string& name) {
  const auto bytes = checkpoint.bytes(name);
  const DType dtype = checkpoint.find(name)->dtype;
  std::vector<float> values(bytes.size() / dtype_size(dtype));
  if (checkpoint.aligned(name)) {
    decode_f32(dtype, bytes.data(), values.data(), static_cast<int64_t>(values.size()));
    return values;
  }
  Buffer copy(bytes.size());
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  decode_f32(dtype, copy.data(), values.data(), static_cast<int64_t>(values.size()));
  return values;
}

FloatMatrix read_matrix(const Checkpoint& checkpoint, const std::string& name) {
  const TensorInfo& info = *checkpoint.find(name);
  if (info.shape.size() != 2) throw Error(cat(name, " is ", info.shape_text(), ", expected a matrix"));
  FloatMatrix matrix{info.shape[0], info.shape[1], read_floats(checkpoint, name)};
  for (size_t i = 0; i < matrix.values.size(); ++i) {
    if (!std::isfinite(matrix.values[i]))
      throw Error(cat(checkpoint.path().string(), ": ", name, " has a weight that is not finite, in row ",
                      static_cast<int64_t>(i) / matrix.k));
  }
  return matrix;
}

}  // namespace quire
