#include "quantize/output_directory.h"

#include "base/error.h"
#include "base/strings.h"
#include "io/output_file.h"

namespace quire {

namespace fs = std::filesystem;

OutputDirectory::OutputDirectory(const fs::path& path)
    : path_(path.has_filename() ? path : path.parent_path()), working_(path_.string() + ".partial") {
  std::error_code error;
  if (fs::exists(path_, error) && !(fs::is_directory(path_, error) && fs::is_empty(path_, error)))
    throw Error(cat(path_.string(), ": already exists; choose another directory or remove it"));
  fs::remove_all(working_, error);
  fs::create_directories(working_, error);
  if (error) throw Error(cat("cannot create ", working_.string(), ": ", error.message()));
}

OutputDirectory::~OutputDirectory() {
  std::error_code ignored;
  if (!working_.empty()) fs::remove_all(working_, ignored);
}

void OutputDirectory::finish() {
  std::error_code error;
  fs::remove(path_, error);  // if it exists, it is empty
  fs::rename(working_, path_, error);
  if (error) throw Error(cat("cannot create ", path_.string(), ": ", error.message()));
  working_.clear();
}

void write_side_files(const fs::path& dir, const std::vector<SideFile>& files) {
  for (const SideFile& file : files) {
    fs::create_directories((dir / file.name).parent_path());
    write_file(dir / file.name, file.bytes);
  }
}

}  // namespace quire
