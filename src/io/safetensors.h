// Reader of the safetensors format: 8 bytes header length (little endian), a JSON header {name: {dtype,
// shape, data_offsets}}, and the bytes of the tensors. All contents of the header are checked against the
// file before they are used. Format: github.com/huggingface/safetensors, "Format".
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
  size_t offset = 0;  // from the start of the file to the tensor's first byte; may be unaligned
  size_t bytes = 0;
  bool quantized = false;  // stored in a quantized packing: `shape` is that of the matrix, `dtype` is unused
  // A type without a DType, as named in the file ("C64"). Nothing computes with it; `dtype` is kBool, with
  // which nothing computes either. Empty for other tensors.
  std::string other_type = {};

  std::string_view type_name() const { return other_type.empty() ? dtype_name(dtype) : other_type; }
  std::string shape_text() const;  // "[2, 3]"
};

// The header of a file: its tensors by offset, and the strings of `__metadata__`.
struct SafetensorsHeader {
  std::vector<TensorInfo> tensors;
  std::map<std::string, std::string, std::less<>> metadata;
};

// The number of bytes before the tensors' data, from the first bytes of a file. Throws Error if they are not
// those of a safetensors file of file_bytes.
size_t safetensors_header_bytes(std::span<const std::byte> start, size_t file_bytes, const std::string& file);

// start: at least the header. Throws Error as Safetensors does.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> start, size_t file_bytes,
                                           const std::string& file);

// A parsed view of a file in memory, which must outlive it.
class Safetensors {
 public:
  // `file` appears in errors. Throws Error if the header is invalid, a shape overflows or does not fit its
  // bytes, tensors overlap, leave a gap or exceed the file, or names are duplicated.
  Safetensors(std::span<const std::byte> bytes, std::string file);

  const std::string& file() const { return file_; }
  std::span<const TensorInfo> tensors() const { return header_.tensors; }  // by offset
  // `__metadata__`: strings by key.
  const std::map<std::string, std::string, std::less<>>& metadata() const { return header_.metadata; }
  std::span<const std::byte> data(const TensorInfo& info) const {
    return bytes_.subspan(info.offset, info.bytes);
  }

 private:
  std::span<const std::byte> bytes_;
  std::string file_;
  SafetensorsHeader header_;
};

}  // namespace quire
