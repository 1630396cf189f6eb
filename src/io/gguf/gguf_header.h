// The header of a GGUF file, read with pread: a file that is truncated meanwhile is an error and not a
// signal.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "io/gguf/gguf_file.h"
#include "io/open_file.h"

namespace quire {

struct GgufHeader {
  FileIdentity identity;
  std::vector<std::byte> bytes;  // that `file` is a view of
  GgufFile file;                 // without data()
};

// Only regular files are read. Throws Error with the path, or as GgufFile does.
GgufHeader read_gguf_header(const std::filesystem::path& path);

// Whether the file is a GGUF file of an adapter, not of a model. False if it cannot be read.
bool is_gguf_adapter(const std::filesystem::path& path);
bool is_gguf_adapter(const GgufFile& file);

}  // namespace quire
