#include "quantize/float_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "quant/codec.h"

namespace quire {
namespace {

void decode(DType dtype, std::span<const std::byte> bytes, std::span<float> out) {
  const auto count = static_cast<int64_t>(out.size());
  if (reinterpret_cast<uintptr_t>(bytes.data()) % dtype_size(dtype) == 0)
    return decode_f32(dtype, bytes.data(), out.data(), count);
  Buffer copy(bytes.size());
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  decode_f32(dtype, copy.data(), out.data(), count);
}

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
}

[[noreturn]] void refuse_row(const Checkpoint& checkpoint, const std::string& name, int64_t row) {
  throw Error(cat(checkpoint.path().string(), ": ", name, " has a weight that is not finite, in row ", row));
}

}  // namespace

std::vector<float> read_floats(const Checkpoint& checkpoint, const std::string& name) {
  const auto bytes = checkpoint.bytes(name);
  const DType dtype = checkpoint.find(name)->dtype;
  std::vector<float> values(bytes.size() / dtype_size(dtype));
  decode(dtype, bytes, values);
  return values;
}

FloatMatrix read_matrix(const Checkpoint& checkpoint, const std::string& name) {
  const TensorInfo& info = *checkpoint.find(name);
  if (info.shape.size() != 2) throw Error(cat(name, " is ", info.shape_text(), ", expected a matrix"));
  FloatMatrix matrix{info.shape[0], info.shape[1], read_floats(checkpoint, name)};
  for (int64_t row = 0; row < matrix.n; ++row) {
    const auto at = static_cast<size_t>(row * matrix.k);
    if (!all_finite(std::span(matrix.values).subspan(at, static_cast<size_t>(matrix.k))))
      refuse_row(checkpoint, name, row);
  }
  return matrix;
}

FloatRows::FloatRows(const Checkpoint& checkpoint, std::string name, int64_t rows)
    : checkpoint_(checkpoint),
      name_(std::move(name)),
      dtype_(checkpoint.find(name_)->dtype),
      bytes_(checkpoint.bytes(name_)),
      n_(rows),
      k_(static_cast<int64_t>(bytes_.size() / dtype_size(dtype_)) / rows) {}

bool FloatRows::read(int64_t row, std::span<float> out) const {
  const size_t row_bytes = out.size() * dtype_size(dtype_);
  decode(dtype_, bytes_.subspan(static_cast<size_t>(row) * row_bytes, row_bytes), out);
  return all_finite(out);
}

void FloatRows::refuse(int64_t row) const {
  refuse_row(checkpoint_, name_, row);
}

}  // namespace quire
