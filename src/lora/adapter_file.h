// The files of an adapter: adapter_config.json and adapter_model.safetensors in a directory, or a GGUF file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/file_handle.h"
#include "io/open_file.h"
#include "io/safetensors.h"
#include "lora/gguf_adapter.h"
#include "nn/adapter_targets.h"

namespace quire::lora {

// The configuration and the header of the tensors, without data. Plain data; no file stays open.
struct AdapterFile {
  std::filesystem::path weights;  // the safetensors or GGUF file
  FileIdentity identity;          // of that file when its header was read
  std::string config;             // text of adapter_config.json
  std::vector<TensorInfo> tensors;
  std::optional<GgufAdapter> gguf;  // set for a GGUF file, which has no adapter_config.json
};

// path: a directory that PEFT wrote, a GGUF file, or a directory with one. Only regular files are read, never
// pipes or devices. targets: whose names and row orders those of a GGUF file become; null = without a model.
// Throws Error if the directory has no configuration or no weights in safetensors files, or if the header
// does not fit the file.
AdapterFile read_adapter_file(const std::filesystem::path& path, const AdapterTargets* targets);

// Reads tensors with pread, so that a file that is truncated meanwhile is an error and not a signal. Used by
// one thread.
class TensorReader {
 public:
  // Throws Error if the file is not the one whose header was read.
  explicit TensorReader(const AdapterFile& file);

  // out = the bytes from `offset`. Throws Error if the file ends before, or cannot be read.
  void read(size_t offset, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  FileHandle handle_;
};

}  // namespace quire::lora
