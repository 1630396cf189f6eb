// Writer of safetensors files, one or several with an index, for models that need not fit into memory: the
// tensors are announced first, then each is written when it is there, in any order. Owned by one thread.
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
  // Makes dir/model.safetensors, or several files of at most shard_bytes (one tensor at the least) and
  // model.safetensors.index.json. Of the tensors name, dtype and shape count. The space is taken at once:
  // throws Error where the disk has none, a name occurs twice, or a file cannot be made.
  SafetensorsWriter(const std::filesystem::path& dir, std::vector<TensorInfo> tensors,
                    int64_t shard_bytes = int64_t{5} << 30);

  // Throws Error where there is no such tensor, it has another size, or the disk fails.
  void write(std::string_view name, std::span<const std::byte> bytes);
  // Throws Error where a tensor was not written.
  void finish();
  int64_t total_bytes() const { return total_bytes_; }  // of the tensors

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
