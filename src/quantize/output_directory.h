// A directory that is created atomically: files are written to a temporary directory next to it, which is
// renamed at the end.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace quire {

class OutputDirectory {
 public:
  // Throws Error if the path exists and is not an empty directory, or the temporary directory cannot be
  // created.
  explicit OutputDirectory(const std::filesystem::path& path);
  ~OutputDirectory();  // removes an unfinished directory
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  const std::filesystem::path& working() const { return working_; }  // the temporary directory
  void finish();

 private:
  std::filesystem::path path_;
  std::filesystem::path working_;
};

// A file of the model other than weights: tokenizer, template, generation_config.json.
struct SideFile {
  std::string name;  // may be in a folder
  std::string bytes;
};
// Throws Error.
void write_side_files(const std::filesystem::path& dir, const std::vector<SideFile>& files);

}  // namespace quire
