// Writer of GGUF files, version 3. Metadata and tensors are declared first, then each tensor is written, in
// any order. Owned by one thread. Format: github.com/ggml-org/ggml, docs/gguf.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/gguf/ggml_type.h"
#include "io/gguf/gguf_file.h"
#include "io/output_file.h"

namespace quire {

// Entries in the order in which they are added; keys must be unique.
class GgufMetadata {
 public:
  void text(std::string_view key, std::string_view value);
  void u32(std::string_view key, uint32_t value);
  void f32(std::string_view key, float value);
  void boolean(std::string_view key, bool value);
  void texts(std::string_view key, std::span<const std::string> values);
  void i32s(std::string_view key, std::span<const int32_t> values);
  void f32s(std::string_view key, std::span<const float> values);

  // Appends the entries of another object.
  void append(const GgufMetadata& other);

  size_t count() const { return keys_.size(); }
  const std::string& bytes() const { return bytes_; }

 private:
  void add_key(std::string_view key);
  void begin(std::string_view key, GgufType type);

  std::vector<std::string> keys_;
  std::string bytes_;
};

struct GgufOutput {
  std::string name;
  const GgmlType* type = nullptr;
  std::vector<int64_t> shape;  // outermost dimension first

  size_t bytes() const;
};

class GgufFileWriter {
 public:
  // Allocates the disk space. Throws Error if there is not enough or the file cannot be created.
  GgufFileWriter(const std::filesystem::path& path, const GgufMetadata& metadata,
                 std::span<const GgufOutput> tensors);
  // Writes the next bytes of a tensor: all of it, or consecutive parts. Throws Error if the tensor does not
  // exist, gets too many bytes, or cannot be written.
  void write(std::string_view name, std::span<const std::byte> bytes);
  // Throws Error if a tensor was not written completely.
  void finish();
  int64_t total_bytes() const { return total_bytes_; }  // size of all tensors

 private:
  struct Place {
    int64_t offset = 0;
    size_t bytes = 0;
    size_t written = 0;
  };
  OutputFile file_;
  std::map<std::string, Place, std::less<>> places_;
  int64_t total_bytes_ = 0;
};

}  // namespace quire
