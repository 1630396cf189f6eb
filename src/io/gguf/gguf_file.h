// Reader of the GGUF container, versions 2 and 3, little endian: "GGUF", version, number of tensors, number
// of metadata entries, the metadata, the tensors' names, dimensions, types and offsets, then their bytes.
// Everything that the file claims is checked against its size before it is used. Format:
// github.com/ggml-org/ggml, docs/gguf.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf/ggml_type.h"

namespace quire {

// The types of metadata by their numbers in the file.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// One entry of the metadata, a view into the file.
struct GgufValue {
  bool is_array = false;
  GgufType type = GgufType::kU8;  // of the value, or of the array's elements
  uint64_t count = 1;             // of elements
  std::span<const std::byte> bytes;

  // The value as such; nothing where it is an array, or of another kind, or does not fit.
  std::optional<int64_t> integer() const;
  std::optional<double> number() const;  // an integer counts
  std::optional<bool> boolean() const;
  std::optional<std::string_view> text() const;
  // The elements of an array; nothing where it is none, or of another kind.
  std::optional<std::vector<int64_t>> integers() const;  // booleans count as 0 and 1
  std::optional<std::vector<double>> numbers() const;
  std::optional<std::vector<std::string_view>> texts() const;
};

struct GgufTensor {
  std::string name;
  const GgmlType* type = nullptr;
  std::vector<int64_t> shape;  // outermost dimension first: [out, in], the reverse of the file's
  size_t offset = 0;           // from the file's begin
  size_t bytes = 0;

  int64_t row_elements() const { return shape.back(); }
  size_t row_bytes() const { return type->bytes_of(shape.back()); }
};

// Looks at bytes that somebody else owns. Immutable.
class GgufFile {
 public:
  // `file` names the file in errors. Throws Error where the file is of another format or version, is cut off,
  // or claims what it cannot hold; where a key or a tensor's name occurs twice; where tensors overlap, are of
  // a type that quire does not read, or whose rows are no whole number of its blocks.
  GgufFile(std::span<const std::byte> bytes, std::string file);

  const std::string& file() const { return file_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const GgufValue* find(std::string_view key) const;                // null: no such key
  std::span<const GgufTensor> tensors() const { return tensors_; }  // in the order of the file
  std::span<const std::byte> data(const GgufTensor& tensor) const {
    return bytes_.subspan(tensor.offset, tensor.bytes);
  }

  // Entries of the metadata. Nothing: no such key; Error: it is of another kind.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  std::vector<std::string_view> texts(std::string_view key) const;  // empty: no such key
  std::vector<double> numbers(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key) const;

  [[noreturn]] void fail(std::string_view what) const;

 private:
  std::span<const std::byte> bytes_;
  std::string file_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
};

// Whether a file begins as GGUF files do.
bool is_gguf(std::span<const std::byte> bytes);

}  // namespace quire
