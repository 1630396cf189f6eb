// Where a model's files are: a directory, or a bundle that the executable carries.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "engine/bundle.h"
#include "io/checkpoint.h"
#include "io/mapped_file.h"
#include "text/tokenizer/tokenizer.h"

namespace quire {

// Must outlive what was opened from it: bundled weights are read where they lie.
class ModelSource {
 public:
  // "" is the embedded model: the bundle at the end of the executable, else the one linked into the program.
  // Throws Error where there is no such directory or no embedded model.
  static ModelSource resolve(const std::string& model);

  const std::string& name() const { return name_; }
  bool embedded() const { return directory_.empty(); }
  const std::filesystem::path& directory() const { return directory_; }  // empty for a bundle

  std::unique_ptr<Checkpoint> open_checkpoint() const;
  // Null where the model has no tokenizer files.
  std::unique_ptr<Tokenizer> open_tokenizer() const;

 private:
  std::string name_;
  std::filesystem::path directory_;
  Bundle bundle_;
  std::shared_ptr<MappedFile> executable_;  // keeps bundle_'s bytes, where they are the executable's
};

// The bundle linked into the program; empty where it was built without one.
std::string_view linked_bundle();

}  // namespace quire
