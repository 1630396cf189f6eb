// Reader of the safetensors format: 8 bytes header length (little endian), a JSON header {name: {dtype,
// shape, data_offsets}}, the tensors' bytes. Everything that the header claims is checked against the file
// before it is used. Format: github.com/huggingface/safetensors, "Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"

namespace quire {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  size_t offset = 0;  // from the file's begin to the tensor's first byte; no alignment is promised
  size_t bytes = 0;
  bool coded = false;  // quantized in a packing of its own: `shape` is the matrix's, `dtype` means nothing

  std::string shape_text() const;  // "[2, 3]"
};

// Looks at bytes that somebody else owns.
class Safetensors {
 public:
  // `file` names the file in errors. Throws Error where the header is broken, a shape overflows or does not
  // fit its bytes, tensors overlap, leave a hole or reach past the end, or a name occurs twice.
  Safetensors(std::span<const std::byte> bytes, std::string file);

  const std::string& file() const { return file_; }
  std::span<const TensorInfo> tensors() const { return tensors_; }  // by offset
  // `__metadata__`: texts by name.
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  std::span<const std::byte> data(const TensorInfo& info) const {
    return bytes_.subspan(info.offset, info.bytes);
  }

 private:
  std::span<const std::byte> bytes_;
  std::string file_;
  std::vector<TensorInfo> tensors_;
  std::map<std::string, std::string, std::less<>> metadata_;
};

}  // namespace quire
