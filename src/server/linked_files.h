// Files of src/server that are linked into the program (cmake/QuireLinkedFiles.cmake). They are constant and
// can be read by any thread.
#pragma once

#include <span>
#include <string_view>

namespace quire {

// Views into the program's image.
struct LinkedFile {
  std::string_view name;  // relative to src/server: "page/index.html"
  std::string_view bytes;
};

std::span<const LinkedFile> linked_files();

// The contents of a file. The name must be one of linked_files().
std::string_view linked_file(std::string_view name);

}  // namespace quire
