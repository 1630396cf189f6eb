// Opens files that a model refers to, which may be of any type.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "io/file_handle.h"

namespace quire {

// Opens a regular file for reading. Pipes, sockets, devices and directories are errors; the call does not
// wait for them or read them. Throws Error with the path.
FileHandle open_regular_file(const std::filesystem::path& path);

// Reads a whole file. Throws Error with the path if it is not a regular file, is larger than max_bytes or
// cannot be read.
std::string read_regular_file(const std::filesystem::path& path, int64_t max_bytes);

// Throws Error: "cannot <action> <path>: " and the text of an error number.
[[noreturn]] void fail_to(std::string_view action, const std::filesystem::path& path, int code);

}  // namespace quire
