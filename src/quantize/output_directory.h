// A directory that appears whole or not at all: files are made in a neighbour, which takes its name at the
// end.
#pragma once

#include <filesystem>

namespace quire {

class OutputDirectory {
 public:
  // Throws Error where there is something at that path that is no empty directory, or nothing can be made.
  explicit OutputDirectory(const std::filesystem::path& path);
  ~OutputDirectory();  // removes what was not finished
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  const std::filesystem::path& working() const { return working_; }  // where files are made
  void finish();

 private:
  std::filesystem::path path_;
  std::filesystem::path working_;
};

}  // namespace quire
