// A GGUF file: the reader accepts it or throws Error, and all accepted tensors are inside the file.
#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "fuzz/fuzz.h"
#include "io/gguf/gguf_checkpoint.h"
#include "io/gguf/gguf_file.h"

namespace quire {
namespace {

void check_file(std::span<const std::byte> bytes) {
  const GgufFile file(bytes, "fuzz");
  for (const auto& [key, value] : file.metadata()) {
    for (const std::string_view text : value.texts().value_or(std::vector<std::string_view>())) {
      fuzz::require(std::as_bytes(std::span(text)).data() >= bytes.data() && text.size() <= bytes.size(),
                    "a text is inside");
    }
    value.numbers();
    value.integers();
    value.text();
  }
  for (const GgufTensor& tensor : file.tensors()) {
    fuzz::require(tensor.offset <= bytes.size() && tensor.bytes <= bytes.size() - tensor.offset,
                  "a tensor is inside");
  }
}

void read_codes(const QuantizedMatrix& matrix) {
  const QuantFormat& format = matrix.format();
  const auto k = static_cast<size_t>(matrix.cols());
  const auto groups = k / static_cast<size_t>(format.group_size);
  const auto blocks = k / static_cast<size_t>(format.block_size);
  std::vector<uint8_t> codes(k), group_minima(groups);
  std::vector<float> scales(blocks), minima(blocks);
  std::vector<int8_t> group_scales(groups);
  const QuantizedRow row = {codes, scales, group_scales, minima, group_minima, {}};
  matrix.read_rows(0, std::span(&row, 1));
  matrix.read_rows(matrix.rows() - 1, std::span(&row, 1));
  for (const uint8_t code : codes) fuzz::require(code < 1 << format.code_bits, "a code is in its range");
}

void check_checkpoint(std::span<const std::byte> bytes) {
  const auto checkpoint = gguf_from_memory(bytes, "fuzz");
  for (const std::string& name : checkpoint->names()) {
    const TensorInfo* info = checkpoint->find(name);
    fuzz::require(info != nullptr && info->quantized == (checkpoint->quantized(name) != nullptr),
                  "each name is found");
    if (info->quantized) read_codes(*checkpoint->quantized(name));
    fuzz::require(checkpoint->bytes(name).size() > 0, "a tensor has bytes");
    if (!info->quantized && info->shape.size() <= 4 && checkpoint->aligned(name)) checkpoint->view(name);
    checkpoint->release(name);
  }
}

}  // namespace
}  // namespace quire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    quire::check_file(bytes);
    quire::check_checkpoint(bytes);
  } catch (const quire::Error&) {
  }
  return 0;
}
