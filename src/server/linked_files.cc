#include "server/linked_files.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/error.h"
#include "base/strings.h"

// The table that cmake/QuireLinkedFiles.cmake generates.
extern "C" {
struct QuireLinkedFile {
  const char* name;
  size_t name_size;
  const char* bytes;
  size_t num_bytes;
};
extern const QuireLinkedFile quire_linked_files_begin[] __attribute__((visibility("hidden")));
extern const QuireLinkedFile quire_linked_files_end[] __attribute__((visibility("hidden")));
}

namespace quire {

std::span<const LinkedFile> linked_files() {
  static const std::vector<LinkedFile> kFiles = [] {
    std::vector<LinkedFile> files;
    for (const QuireLinkedFile* file = quire_linked_files_begin; file != quire_linked_files_end; ++file)
      files.push_back({{file->name, file->name_size}, {file->bytes, file->num_bytes}});
    return files;
  }();
  return kFiles;
}

std::string_view linked_file(std::string_view name) {
  const auto files = linked_files();
  const auto found = std::ranges::find(files, name, &LinkedFile::name);
  if (found == files.end()) throw Error(cat("the file ", name, " is not part of the program"));
  return found->bytes;
}

}  // namespace quire
