#include "cli/text_input.h"

#include <iostream>
#include <iterator>

#include "io/json_file.h"

namespace quire::cli {

std::string read_standard_input() {
  return {std::istreambuf_iterator<char>(std::cin), {}};
}

std::string read_text(const std::string& path, int64_t max_bytes) {
  return path == "-" ? read_standard_input() : read_text_file(path, max_bytes);
}

}  // namespace quire::cli
