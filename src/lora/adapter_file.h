// The files of a PEFT adapter: adapter_config.json and adapter_model.safetensors in a directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/file_handle.h"
#include "io/open_file.h"
#include "io/safetensors.h"

namespace quire::lora {

// The configuration and the header of the tensors, without data. Plain data; no file stays open.
struct AdapterFile {
  std::filesystem::path weights;  // the safetensors file
  FileIdentity identity;          // of that file when its header was read
  std::string config;             // text of adapter_config.json
  std::vector<TensorInfo> tensors;
};

// Only regular files are read, never pipes or devices. Throws Error with the path if the directory has no
// configuration or no weights in safetensors files, or if the header does not fit the file.
AdapterFile read_adapter_file(const std::filesystem::path& directory);

// Reads tensors with pread, so that a file that is truncated meanwhile is an error and not a signal. Used by
// one thread.
class TensorReader {
 public:
  // Throws Error if the file is not the one whose header was read.
  explicit TensorReader(const AdapterFile& file);

  // out has the size of the tensor. Throws Error if the file ends before, or cannot be read.
  void read(const TensorInfo& tensor, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  FileHandle handle_;
};

}  // namespace quire::lora
