// Reads the values of an adapter's tensors. Used by one thread, for the time of a load.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "io/safetensors.h"
#include "lora/adapter_file.h"
#include "lora/problems.h"
#include "nn/row_layout.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace quire::lora {

// The values of a vector in the model's order. layout: nullopt = they are.
std::vector<float> in_order(std::vector<float> stored, const std::optional<RowLayout>& layout);

class TensorValues {
 public:
  // Throws Error if the file is not the one whose header was read. Both arguments outlive this.
  TensorValues(const AdapterFile& file, Problems& problems)
      : file_(file), reader_(file), problems_(problems) {}

  // out = the tensor as `dtype`, either its own type or float32. Adds to the problems a value that is not
  // finite.
  void read(const TensorInfo& tensor, DType dtype, std::byte* out);
  // The same, valid until the next call.
  const std::byte* read(const TensorInfo& tensor, DType dtype);
  // The transposed matrix.
  Buffer read_transposed(const TensorInfo& tensor, DType dtype);

 private:
  void read_gguf(const TensorInfo& tensor, const GgufForm& form, DType dtype, std::byte* out);
  void check_finite(const TensorInfo& tensor, DType dtype, const std::byte* data, int64_t count);

  const AdapterFile& file_;
  TensorReader reader_;
  Problems& problems_;
  // Memory for one tensor, kept from one to the next.
  std::vector<std::byte> raw_;
  std::vector<std::byte> converted_;
  std::vector<float> decoded_;
};

}  // namespace quire::lora
