// Decodes tensors of GGUF files to float32. Plain and slow: for small tensors at load time. Stateless;
// thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "io/gguf/ggml_type.h"

namespace quire {

// out = the values of whole blocks, as many as `data` has. The values of quantized types have the bits that
// quant/quantized_matrix.h defines.
void decode_ggml(const GgmlType& type, std::span<const std::byte> data, float* out);

}  // namespace quire
