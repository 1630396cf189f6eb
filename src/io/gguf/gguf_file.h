// Reader of the GGUF container, versions 2 and 3, little endian: "GGUF", version, number of tensors, number
// of metadata entries, the metadata, the tensors' names, dimensions, types and offsets, then their bytes. All
// contents are checked against the size of the file before they are used. Format: github.com/ggml-org/ggml,
// docs/gguf.md.
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

#include "io/config_reader.h"
#include "io/gguf/ggml_type.h"

namespace quire {

// Types of metadata, by their numbers in the file.
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
  GgufType type = GgufType::kU8;  // type of the value, or of the array's elements
  uint64_t count = 1;             // number of elements
  std::span<const std::byte> bytes;

  // Returns the value; nullopt if it is an array, has another type, or does not fit.
  std::optional<int64_t> integer() const;
  std::optional<double> number() const;  // also accepts integers
  // number(); for float32 the shortest decimal that rounds to it: 1e-05, not 9.99999975e-06.
  std::optional<double> decimal() const;
  std::optional<bool> boolean() const;
  std::optional<std::string_view> text() const;
  // Returns the elements of an array; nullopt if it is not an array or has another type.
  std::optional<std::vector<int64_t>> integers() const;  // booleans count as 0 and 1
  std::optional<std::vector<double>> numbers() const;
  std::optional<std::vector<std::string_view>> texts() const;
};

struct GgufTensor {
  std::string name;
  const GgmlType* type = nullptr;
  std::vector<int64_t> shape;  // outermost dimension first: [out, in], the reverse of the file's
  size_t offset = 0;           // from the start of the file
  size_t bytes = 0;

  int64_t row_elements() const { return shape.back(); }
  size_t row_bytes() const { return type->bytes_of(shape.back()); }
};

// A parsed view of a file in memory, which must outlive it. Immutable, except that it remembers which
// metadata were asked for; one thread may read metadata at a time.
class GgufFile {
 public:
  // `file` appears in errors. Throws Error if the file has another format or version, is truncated, or
  // declares more than it can contain; if keys or tensor names are duplicated; if tensors overlap, have an
  // unsupported type, or have rows that are not a multiple of its block.
  GgufFile(std::span<const std::byte> bytes, std::string file);
  // The same from the first bytes of a file of file_bytes, without data(). nullopt if they end before the
  // data begin.
  static std::optional<GgufFile> from_start(std::span<const std::byte> start, size_t file_bytes,
                                            std::string file);

  const std::string& file() const { return file_; }
  const std::map<std::string, GgufValue, std::less<>>& metadata() const { return metadata_; }
  const GgufValue* find(std::string_view key) const;  // null if the key does not exist
  // The same without counting as asking for the key.
  const GgufValue* peek(std::string_view key) const;
  const FieldLog& asked() const { return asked_; }
  std::span<const GgufTensor> tensors() const { return tensors_; }  // in the order of the file
  std::span<const std::byte> data(const GgufTensor& tensor) const {
    return bytes_.subspan(tensor.offset, tensor.bytes);
  }

  // Entries of the metadata. nullopt if the key does not exist; throws Error if the value has another type.
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  std::optional<std::string_view> text(std::string_view key) const;
  std::vector<std::string_view> texts(std::string_view key) const;  // empty if the key does not exist
  std::vector<double> numbers(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key) const;

  [[noreturn]] void fail(std::string_view what) const;

 private:
  GgufFile(std::span<const std::byte> start, size_t file_bytes, std::string file);

  std::span<const std::byte> bytes_;
  std::string file_;
  std::map<std::string, GgufValue, std::less<>> metadata_;
  std::vector<GgufTensor> tensors_;
  mutable FieldLog asked_;
};

// Whether a file starts with the magic of GGUF.
bool is_gguf(std::span<const std::byte> bytes);

}  // namespace quire
