// Opens files that a model refers to, which may be of any type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "io/file_handle.h"

namespace quire {

// Identifies the contents of a file: if any field differs, the contents may differ.
struct FileIdentity {
  std::string name;  // without directories
  int64_t bytes = 0;
  int64_t inode = 0;
  int64_t modified_ns = 0;

  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

// Opens a regular file for reading. Pipes, sockets, devices and directories are errors; the call does not
// wait for them or read them. Throws Error with the path.
FileHandle open_regular_file(const std::filesystem::path& path);

// path: of the open file, as in the following. Throws Error with the path.
FileIdentity identity_of(const FileHandle& file, const std::filesystem::path& path);

// Fills `out` with the bytes from `offset`. Throws Error with the path if the file ends before or cannot be
// read.
void read_at(const FileHandle& file, const std::filesystem::path& path, size_t offset,
             std::span<std::byte> out);

// Reads a whole file. Throws Error with the path if it is not a regular file, is larger than max_bytes or
// cannot be read.
std::string read_regular_file(const std::filesystem::path& path, int64_t max_bytes);

// Throws Error: "cannot <action> <path>: " and the text of an error number.
[[noreturn]] void fail_to(std::string_view action, const std::filesystem::path& path, int code);

}  // namespace quire
