// Writer of safetensors files, either one file or several with an index. The model need not fit into memory:
// tensors are declared first, then written in any order. Not thread-safe.
// Format: github.com/huggingface/safetensors, "Format".
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/output_file.h"
#include "io/safetensors.h"

namespace quire {

class SafetensorsWriter {
 public:
  // Creates dir/model.safetensors, or several files of at most shard_bytes (or one tensor) and
  // model.safetensors.index.json. Uses the name, dtype and shape of the tensors. Allocates the disk space;
  // throws Error if there is not enough, a name is duplicated, or a file cannot be created.
  SafetensorsWriter(const std::filesystem::path& dir, std::vector<TensorInfo> tensors,
                    int64_t shard_bytes = int64_t{5} << 30);

  // Throws Error if the tensor was not declared, has another size, or cannot be written.
  void write(std::string_view name, std::span<const std::byte> bytes);
  // Throws Error if a tensor was not written.
  void finish();
  int64_t total_bytes() const { return total_bytes_; }  // size of all tensors

 private:
  struct Place {
    size_t file = 0;
    int64_t offset = 0;  // in the file
    int64_t bytes = 0;
    bool written = false;
  };

  std::vector<OutputFile> files_;
  std::map<std::string, Place, std::less<>> places_;
  int64_t total_bytes_ = 0;
};

}  // namespace quire
