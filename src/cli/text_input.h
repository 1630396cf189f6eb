// Texts that commands read from files and from standard input.
#pragma once

#include <cstdint>
#include <string>

namespace quire::cli {

// All of standard input.
std::string read_standard_input();
// A file, or standard input for "-". Throws Error if the file cannot be read or is larger than max_bytes.
std::string read_text(const std::string& path, int64_t max_bytes = int64_t{1} << 32);

}  // namespace quire::cli
